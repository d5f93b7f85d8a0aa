// Package child runs the program that a user names, such as in "ferry trace -- PROGRAM", and
// leaves no process of it behind.
//
// On Unix the program has a process group of its own. SIGINT, SIGTERM, SIGHUP and SIGQUIT are
// handed on to the group. After 5 seconds, or a second signal, what is left of it is killed. A
// process that has left the group, as by setsid, is not. A program that ends by itself may leave
// processes, as under a shell. A signal that this process was started to ignore is ignored.
//
// On Linux the program gets the terminal when it reads from it, and Ctrl-Z stops it together
// with this process. If this process is killed by SIGKILL, the kernel kills the program too, but
// not what that has started.
package child
