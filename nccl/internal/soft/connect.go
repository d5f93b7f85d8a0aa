package soft

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// process is a random name of this process: ranks that give the same are in one.
var process = randomName()

// processOf returns the name of a rank's process; tests replace it.
var processOf = func(*backend.Config) string { return process }

func randomName() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// card is what each rank tells the others first.
type card struct {
	Library string // of which communicators are
	Process string
	Host    string // the computer
	Hub     string // random; that of rank 0 names the communicator
	Driver  string // the software machine
	Device  int32
}

const cardLibrary = "ferry software 1"

// connect finds the other ranks.
func (c *comm) connect(ctx context.Context) error {
	host, _ := os.Hostname()
	mine := card{cardLibrary, c.process, host + bootID(), randomName(), fmt.Sprintf("%p", c.driver), int32(c.device)}
	cards, err := gather(ctx, c.session, "communicator: ranks", mine)
	if err != nil {
		return err
	}
	if err := c.fits(cards); err != nil {
		return err
	}
	c.hub = join(cards[0].Hub+c.process, c)
	w, err := newWire(c, cards)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.wire = w
	c.mu.Unlock()
	cardsOfWires, err := gather(ctx, c.session, "communicator: addresses", w.card())
	if err != nil {
		return err
	}
	for rank, x := range cards {
		if rank != c.rank && x.Process == c.process {
			c.setPeer(rank, c.hub.comms[rank])
		}
	}
	return w.connect(ctx, cardsOfWires)
}

// fits refuses ranks that cannot be in one communicator.
func (c *comm) fits(cards []card) error {
	for rank, x := range cards {
		if x.Library != cardLibrary {
			return fmt.Errorf("rank %d has communicators of another kind, %q: use the same release of Ferry in all ranks", rank, x.Library)
		}
		same := func(y card) bool { return y.Process == x.Process && y.Driver == x.Driver && y.Device == x.Device }
		if first := slices.IndexFunc(cards, same); first != rank {
			return fmt.Errorf("ranks %d and %d use the same GPU, device %d: each rank needs its own", first, rank, x.Device)
		}
	}
	return nil
}

// gather hands a value to all ranks, as JSON.
func gather[T any](ctx context.Context, s backend.Session, key string, mine T) ([]T, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	all, err := s.Gather(ctx, key, text)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(all))
	for rank, text := range all {
		if err := json.Unmarshal(text, &list[rank]); err != nil {
			return nil, fmt.Errorf("rank %d sent what cannot be read: %w", rank, err)
		}
	}
	return list, nil
}

// bootID tells computers of the same name apart, where the system says so.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(text)
}
