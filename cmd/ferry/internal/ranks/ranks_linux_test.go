package ranks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// roleVariable makes this test binary a rank that does what its value says.
const roleVariable = "FERRY_TEST_RANKS_ROLE"

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	os.Exit(roles[role](os.Getenv("RANK")))
}

// roles are what ranks do. They return the exit status.
var roles = map[string]func(rank string) int{
	"variables": func(string) int {
		for _, name := range append(slices.Clone(foreign), "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "FERRY_NCCL_TOKEN", "NCCL_NVLS_ENABLE", "MORE") {
			if value, ok := os.LookupEnv(name); ok {
				fmt.Printf("%s=%s\n", name, value)
			}
		}
		_, err := fmt.Scanln(new(string))
		fmt.Println("input:", err)
		return 0
	},
	// One rank fails when it is told to. The others end by SIGTERM, and say so.
	"fail": func(rank string) int {
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		fmt.Println("up")
		if rank != "2" {
			fmt.Printf("told to end: %v", <-told) // no end of the line
			return 9
		}
		waitFor(os.Getenv("GO_ON"))
		return 7
	},
	"kill": func(rank string) int {
		if rank == "1" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		select {}
	},
	"lines": func(rank string) int {
		for i := range 2000 {
			fmt.Fprintf(os.Stdout, "line %d of rank %s\n", i, rank)
			fmt.Fprintf(os.Stderr, "error %d of rank %s\n", i, rank)
		}
		return 0
	},
	"sleep": func(string) int { fmt.Println("up"); select {} },
	"flood": func(string) int {
		for {
			fmt.Println("more")
		}
	},
	"leave": func(rank string) int {
		c := exec.Command("sleep", "600")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			return 1
		}
		fmt.Println(c.Process.Pid)
		return 0
	},
}

// waitFor waits until a file is there.
func waitFor(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// newJob returns a job whose ranks have a role, and its outputs.
func newJob(t *testing.T, role string, size int, env ...string) (j *Job, stdout, stderr *gputest.Output) {
	t.Helper()
	stdout, stderr = &gputest.Output{}, &gputest.Output{}
	return &Job{Args: []string{os.Args[0]}, Env: append(env, roleVariable+"="+role), Size: size, Stdout: stdout, Stderr: stderr}, stdout, stderr
}

// of returns the lines of a rank, without the prefix.
func of(rank int, text string) (lines []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, fmt.Sprintf("[%d] ", rank)); ok {
			lines = append(lines, strings.TrimSuffix(rest, "\n"))
		}
	}
	return lines
}

// giveInput gives this process a standard input that has a line.
func giveInput(t *testing.T) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(to, "input")
	to.Close()
	before := os.Stdin
	os.Stdin = from
	t.Cleanup(func() { os.Stdin = before; from.Close() })
}

// TestVariables: each rank has its variables, those of this process but for other launchers', and no
// input. The token differs from job to job.
func TestVariables(t *testing.T) {
	for _, name := range foreign {
		t.Setenv(name, "5")
	}
	t.Setenv("RANK", "77")
	giveInput(t)
	t.Setenv("NCCL_NVLS_ENABLE", "0")
	var before string
	for range 2 {
		j, stdout, _ := newJob(t, "variables", 3, "MORE=more")
		if failure, err := j.Run(t.Context()); failure != nil || err != nil {
			t.Fatal(failure, err)
		}
		var port, token string
		for r := range 3 {
			lines := of(r, stdout.String())
			if len(lines) != 10 {
				t.Fatalf("rank %d has %q", r, lines)
			}
			port, _ = strings.CutPrefix(lines[5], "MASTER_PORT=")
			if r > 0 && lines[6] != token {
				t.Errorf("the ranks have the tokens %q and %q", token, lines[6])
			}
			token = lines[6]
			want := []string{"RANK=" + strconv.Itoa(r), "WORLD_SIZE=3", "LOCAL_RANK=" + strconv.Itoa(r), "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
				"MASTER_PORT=" + port, token, "NCCL_NVLS_ENABLE=0", "MORE=more", "input: EOF"}
			if !slices.Equal(lines, want) {
				t.Errorf("rank %d has\n%q, want\n%q", r, lines, want)
			}
		}
		if len(token) < len("FERRY_NCCL_TOKEN=")+20 || token == before {
			t.Errorf("the token is %q, before %q", token, before)
		}
		before = token
		first, _ := strconv.Atoi(port)
		for _, p := range []int{first, first + 1} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if err != nil {
				t.Errorf("the port %d is not free: %v", p, err)
				continue
			}
			l.Close()
		}
	}
}

// TestFails: when a rank fails, the others get SIGTERM, and the first failure is the result.
func TestFails(t *testing.T) {
	goOn := t.TempDir() + "/go-on"
	j, stdout, _ := newJob(t, "fail", 5, "GO_ON="+goOn)
	go func() {
		for strings.Count(stdout.String(), "up\n") < 5 {
			time.Sleep(5 * time.Millisecond)
		}
		_ = os.WriteFile(goOn, nil, 0o666)
	}()
	failure, err := j.Run(t.Context())
	if err != nil || failure == nil || *failure != (Failure{2, "exit status 7", 7}) {
		t.Fatalf("%+v, %v", failure, err)
	}
	for r := range 5 {
		want := []string{"up", "told to end: terminated"}
		if r == 2 {
			want = want[:1]
		}
		if got := of(r, stdout.String()); !slices.Equal(got, want) {
			t.Errorf("rank %d says %q, want %q", r, got, want)
		}
	}
}

// TestKilled: a rank that a signal ends fails with 128 and the signal.
func TestKilled(t *testing.T) {
	j, _, _ := newJob(t, "kill", 2)
	failure, err := j.Run(t.Context())
	if err != nil || failure == nil || *failure != (Failure{1, "signal: killed", 137}) {
		t.Errorf("%+v, %v", failure, err)
	}
}

// TestLines: the lines of many ranks stay whole, in order, and on their output.
func TestLines(t *testing.T) {
	j, stdout, stderr := newJob(t, "lines", 6)
	if failure, err := j.Run(t.Context()); failure != nil || err != nil {
		t.Fatal(failure, err)
	}
	for what, text := range map[string]string{"line": stdout.String(), "error": stderr.String()} {
		if n := strings.Count(text, "\n"); n != 6*2000 {
			t.Errorf("%d lines", n)
		}
		for r := range 6 {
			lines := of(r, text)
			if len(lines) != 2000 {
				t.Errorf("rank %d has %d lines", r, len(lines))
			}
			for i, line := range lines {
				if want := fmt.Sprintf("%s %d of rank %d", what, i, r); line != want {
					t.Fatalf("rank %d says %q, want %q", r, line, want)
				}
			}
		}
	}
}

// TestPrefixed: a last line gets its end, an empty line its prefix, and a line that is too long
// becomes several. Nothing else changes.
func TestPrefixed(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", mostLine/16)
	for in, want := range map[string]string{
		"":               "",
		"a":              "[3] a\n",
		"a\n\nb\r\n":     "[3] a\n[3] \n[3] b\r\n",
		"1 %\r2 %\rdone": "[3] 1 %\r2 %\rdone\n",
		long + "\n":      "[3] " + long + "\n[3] \n",
		long + "rest":    "[3] " + long + "\n[3] rest\n",
	} {
		var out bytes.Buffer
		prefixed(strings.NewReader(in), "[3] ", func(lines []byte) {
			if !bytes.HasPrefix(lines, []byte("[3] ")) || !bytes.HasSuffix(lines, []byte("\n")) {
				t.Errorf("%.20q: %.20q is no whole line", in, lines)
			}
			out.Write(lines)
		})
		if out.String() != want {
			t.Errorf("%.20q becomes %.40q, want %.40q", in, out.String(), want)
		}
	}
}

// TestEnds: a context that ends, and an output that takes nothing more, end all ranks.
func TestEnds(t *testing.T) {
	j, stdout, _ := newJob(t, "sleep", 3)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for strings.Count(stdout.String(), "up\n") < 3 {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(&child.Stop{Signal: syscall.SIGHUP})
	}()
	if failure, err := j.Run(ctx); failure != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", failure, err)
	}
	j, _, _ = newJob(t, "flood", 3)
	j.Stdout = full{}
	if failure, err := j.Run(t.Context()); failure != nil || !errors.Is(err, errFull) {
		t.Errorf("%+v, %v", failure, err)
	}
	if failure, err := (&Job{Args: []string{"/no/such"}, Size: 3}).Run(t.Context()); failure != nil || err == nil || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("%+v, %v", failure, err)
	}
}

// full is an output that takes nothing.
type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestLeave: what a rank leaves in the background does not keep the job from ending.
func TestLeave(t *testing.T) {
	j, stdout, _ := newJob(t, "leave", 2)
	began := time.Now()
	if failure, err := j.Run(t.Context()); failure != nil || err != nil {
		t.Error(failure, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the job took %v", took)
	}
	for r := range 2 {
		pid, err := strconv.Atoi(strings.Join(of(r, stdout.String()), ""))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("what rank %d left: %v", r, err)
		}
	}
}
