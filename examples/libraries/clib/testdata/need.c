int clib_need(void) { return 1000; }
