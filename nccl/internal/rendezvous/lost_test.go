package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// childVariable lets this test binary be a rank, until it is killed.
const childVariable = "FERRY_TEST_RENDEZVOUS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		beRank()
	}
	os.Exit(m.Run())
}

// beRank joins by the variables of the environment, says so, and waits until it is killed.
func beRank() {
	w, err := FromEnvironment(os.Getenv)
	if err == nil {
		_, err = Join(context.Background(), w, &Options{Token: os.Getenv("FERRY_NCCL_TOKEN"), Timeout: 20 * time.Second})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("joined")
	select {}
}

// startRank starts a process that is a rank, and returns a function that waits until it has joined.
func startRank(t *testing.T, rank, size int, addr string) (c *exec.Cmd, joined func()) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	master, _ := strconv.Atoi(port)
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"=1", "RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(size),
		"MASTER_ADDR="+host, "MASTER_PORT="+strconv.Itoa(master-1), "FERRY_NCCL_TOKEN=secret")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c, func() {
		if line, _ := bufio.NewReader(out).ReadString('\n'); line != "joined\n" {
			t.Fatalf("the process says %q", line)
		}
	}
}

// TestLost: when the process of a rank is killed, every other rank gets an error that names it, and
// so does a Gather that waits.
func TestLost(t *testing.T) {
	for _, killed := range []int{2, 0} {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			t.Parallel()
			listener := listenHere(t)
			if killed == 0 {
				listener.Close() // the child listens there
			}
			child, joined := startRank(t, killed, 4, listener.Addr().String())
			var all []*Session
			var mu sync.Mutex
			var wait sync.WaitGroup
			for r := range 4 {
				if r != killed {
					wait.Go(func() {
						s, err := rankConfig(listener, r, 4).join(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						all = append(all, s)
					})
				}
			}
			joined()
			wait.Wait()
			time.AfterFunc(20*time.Millisecond, func() { child.Process.Kill() })
			each(all, func(s *Session) { checkLost(t, s, killed) })
			each(all, func(s *Session) { s.Close() })
		})
	}
}

// checkLost demands that a rank is named as lost.
func checkLost(t *testing.T, s *Session, want int) {
	_, err := s.Gather(t.Context(), "never", nil)
	if lost, ok := errors.AsType[*LostError](err); !ok || lost.Rank != want {
		t.Errorf("rank %d: Gather returns %v, want the loss of rank %d", s.Rank(), err, want)
	}
	select {
	case <-s.Lost():
	case <-time.After(10 * time.Second):
		t.Fatalf("rank %d: Lost is open", s.Rank())
	}
	if lost, ok := errors.AsType[*LostError](s.Err()); !ok || lost.Rank != want || !strings.Contains(lost.Error(), fmt.Sprintf("rank %d has ", want)) {
		t.Errorf("rank %d: Err is %v, want the loss of rank %d", s.Rank(), s.Err(), want)
	}
	if _, err := s.Gather(t.Context(), "later", nil); err == nil {
		t.Errorf("rank %d: Gather after the loss returns no error", s.Rank())
	}
}

// TestMissing: where ranks do not come, the errors of those that have come name both.
func TestMissing(t *testing.T) {
	t.Parallel()
	listener := listenHere(t)
	var wait sync.WaitGroup
	for _, r := range []int{0, 2, 3, 5} {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			if r == 5 { // this one gives up because rank 0 does
				ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
			}
			defer cancel()
			_, err := rankConfig(listener, r, 6).join(ctx)
			if err == nil || !strings.Contains(err.Error(), "ranks 0, 2, 3 and 5 came, ranks 1 and 4 did not") {
				t.Errorf("rank %d: %v", r, err)
			}
			if gone, ok := errors.AsType[*LeftError](err); r == 0 && !ok && !errors.Is(err, context.DeadlineExceeded) || ok && gone.Rank == r {
				t.Errorf("rank %d: the cause of %v", r, err)
			}
		})
	}
	wait.Wait()
}

// TestNobodyThere: a rank whose rank 0 does not come says where it looked for it.
func TestNobodyThere(t *testing.T) {
	listener := listenHere(t)
	listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := rankConfig(listener, 1, 2).join(ctx)
	if err == nil || !strings.Contains(err.Error(), "rank 0 at "+listener.Addr().String()+" did not answer") || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestGatherMissing: a Gather whose context ends names who has not come. Then the same key can be
// used again.
func TestGatherMissing(t *testing.T) {
	for name, all := range map[string][]*Session{"tcp": joinAll(t, 5), "local": Local(5)} {
		each(all, func(s *Session) {
			if s.Rank() == 1 || s.Rank() == 3 {
				return
			}
			cause := errors.New("the user is impatient")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			_, err := s.Gather(ctx, "half", []byte("early"))
			missing, ok := errors.AsType[*MissingError](err)
			if !ok || !slices.Equal(missing.Missing, []int{1, 3}) || !slices.Equal(missing.Came, []int{0, 2, 4}) {
				t.Errorf("%s, rank %d: %v", name, s.Rank(), err)
			}
			if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, rank %d: %v has not the cause", name, s.Rank(), err)
			}
		})
		checkEarly(t, name, all)
		each(all, func(s *Session) {
			got, err := s.Gather(t.Context(), "half", []byte{byte(s.Rank())})
			if err != nil || string(slices.Concat(got...)) != "\x00\x01\x02\x03\x04" {
				t.Errorf("%s, rank %d, again: %v, %v", name, s.Rank(), got, err)
			}
		})
		each(all, func(s *Session) { s.Close() })
	}
}

// checkEarly demands that a rank is named that gave up before the last one came.
func checkEarly(t *testing.T, name string, all []*Session) {
	enough, stop := context.WithCancel(t.Context())
	each(all, func(s *Session) {
		ctx, cancel := enough, context.CancelFunc(func() {})
		switch s.Rank() {
		case 0: // has the error that counts
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer stop()
		case 2: // does not wait
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		case 4: // comes late
			time.Sleep(60 * time.Millisecond)
		}
		defer cancel()
		_, err := s.Gather(ctx, "half", []byte("early"))
		if err == nil || s.Rank() == 0 && !strings.HasSuffix(err.Error(), "all came, but rank 2 did not wait so long") {
			t.Errorf("%s, rank %d: %v", name, s.Rank(), err)
		}
	})
}

// TestLeft: a rank that closes its session is not lost. A Gather that needs it ends with its name,
// and one for which it had offered a value does not need it.
func TestLeft(t *testing.T) {
	for name, all := range map[string][]*Session{"tcp": joinAll(t, 4), "local": Local(4)} {
		offered := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() { // rank 3 offers, and closes while it waits
			s := all[3]
			time.AfterFunc(50*time.Millisecond, func() { s.Close(); close(offered) })
			if _, err := s.Gather(t.Context(), "with", []byte("3")); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v, want %v", name, err, ErrClosed)
			}
		})
		for _, s := range all[:3] {
			wait.Go(func() {
				_, err := s.Gather(t.Context(), "without", nil) // waits for rank 3
				if gone, ok := errors.AsType[*LeftError](err); !ok || gone.Rank != 3 {
					t.Errorf("%s, rank %d: %v, want that rank 3 has left", name, s.Rank(), err)
				}
				<-offered
				if _, err := s.Gather(t.Context(), "after", nil); err == nil { // knows that it is gone
					t.Errorf("%s, rank %d: no error", name, s.Rank())
				}
				if got, err := s.Gather(t.Context(), "with", nil); err != nil || string(got[3]) != "3" {
					t.Errorf("%s, rank %d: %q, %v", name, s.Rank(), got, err)
				}
				if s.Err() != nil {
					t.Errorf("%s, rank %d: %v", name, s.Rank(), s.Err())
				}
			})
		}
		wait.Wait()
		all[0].Close()
		for _, s := range all[1:3] {
			if _, err := s.Gather(t.Context(), "x", nil); err == nil || !strings.Contains(err.Error(), "rank 0 has closed its session") {
				t.Errorf("%s, rank %d, without rank 0: %v", name, s.Rank(), err)
			}
			if s.Err() != nil {
				t.Errorf("%s, rank %d: %v", name, s.Rank(), s.Err())
			}
			s.Close()
			if _, err := s.Gather(t.Context(), "x", nil); !errors.Is(err, ErrClosed) {
				t.Errorf("%s, rank %d, closed: %v", name, s.Rank(), err)
			}
			s.Close()
		}
	}
}

// TestGatherRefused: wrong arguments of Gather are refused.
func TestGatherRefused(t *testing.T) {
	s := Local(2)[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.Gather(ctx, "busy", nil)
	for len(busy(s)) == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, c := range []struct {
		key   string
		bytes int
		want  string
	}{
		{"", 0, "a key has 1 to 255 bytes"},
		{"\x00split", 0, "does not begin with a zero"},
		{strings.Repeat("k", 256), 0, "a key has 1 to 255 bytes"},
		{"k", maxValue + 1, "1048577 bytes of rank 0, of at most 1048576"},
		{"busy", 0, `rank 0 waits for gather "busy" already`},
	} {
		if _, err := s.Gather(ctx, c.key, make([]byte, c.bytes)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.key, err, c.want)
		}
	}
}

// busy returns the keys that a session waits for.
func busy(s *Session) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.waits {
		keys = append(keys, key)
	}
	return keys
}

// TestAgain: ranks that close their sessions join anew at the same port, also before rank 0 has
// closed its own.
func TestAgain(t *testing.T) {
	all, addr := joinAt(t, 3)
	for _, s := range all[1:] {
		s.Close()
	}
	var wait sync.WaitGroup
	next := func(r int, listener net.Listener) {
		s, err := (&config{World: World{Rank: r, Size: 3, Addr: addr}, token: "secret", who: "again", version: protocol,
			handshake: handshakePatience, listener: listener}).join(t.Context())
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
			return
		}
		if _, err := s.Gather(t.Context(), "all joined", nil); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
		s.Close()
	}
	wait.Go(func() { next(1, nil) })
	wait.Go(func() { next(2, nil) })
	time.Sleep(30 * time.Millisecond) // they are sent away
	all[0].Close()
	wait.Go(func() { next(0, nil) })
	wait.Wait()
}

// TestList writes ranks as people do.
func TestList(t *testing.T) {
	for want, ranks := range map[string][]int{
		"no rank": nil, "rank 3": {3}, "ranks 0 and 1": {0, 1}, "ranks 0 to 2": {0, 1, 2}, "ranks 0, 1 and 4 to 9": {0, 1, 4, 5, 6, 7, 8, 9}, "ranks 1, 3 and 5": {1, 3, 5},
	} {
		if got := list(ranks); got != want {
			t.Errorf("%v: %q, want %q", ranks, got, want)
		}
	}
}
