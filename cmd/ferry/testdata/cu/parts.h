// What the files of parts share. It is C and C++.
#ifdef __cplusplus
extern "C" {
#endif
void add_ten(int *p);
int version(void);
#ifdef __cplusplus
}
#endif
