package trace

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
)

// line returns the first line of a recording, filled up with spaces.
func (h *header) line() []byte {
	text, err := json.Marshal(h)
	if err != nil || len(text) >= headerBytes {
		text = []byte(`{"schema":"` + Schema + `"}`)
	}
	line := make([]byte, headerBytes)
	for i := copy(line, text); i < headerBytes-1; i++ {
		line[i] = ' '
	}
	line[headerBytes-1] = '\n'
	return line
}

// opRow is a row of an operation.
type opRow struct {
	id, call   uint64
	device     int
	stream     int
	name       string
	engine     string
	from, to   string
	bytes      uint64
	queued     int64
	start, end int64
	after      uint64 // the operation that it waited for, 0 for none
	why        string
	count      int    // calls of a batch, 0 for other operations
	part       string // the longest part of a kernel's predicted time, "" if not known
	partTime   int64
	untimed    string // why there are no times; "" if there are
}

// addCall adds the row of a call.
func (r *Recorder) addCall(c *call, end int64, err error) {
	if r.log != nil {
		r.log.LogAttrs(context.Background(), slog.LevelDebug, c.name, slog.Uint64("call", c.id),
			slog.Uint64("bytes", c.bytes), slog.Int64("start_ns", c.start), slog.Int64("end_ns", end), slog.Any("error", err))
	}
	stream := c.d.names.stream(c.stream)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	b := row{append(r.buf, `{"call":`...)}
	b.buf = strconv.AppendUint(b.buf, c.id, 10)
	b.text("name", c.name)
	b.num("driver", int64(c.d.id))
	b.num("start", c.start)
	b.num("end", end)
	b.num("track", int64(c.track))
	b.num("site", int64(c.site))
	if stream != noStreamNumber {
		b.num("stream", int64(stream))
	}
	if c.bytes != 0 {
		b.num("bytes", int64(c.bytes))
	}
	if c.address != 0 {
		b.num("address", int64(c.address))
	}
	if c.source != 0 {
		b.num("source", int64(c.source))
	}
	if c.kind != "" {
		b.text("memory", c.kind)
	}
	if c.node != NoNode {
		b.num("node", int64(c.node))
	}
	if err != nil {
		why := err.Error()
		b.text("error", why[:min(len(why), 200)])
	}
	r.buf = append(b.buf, "}\n"...)
	r.added(rowCall)
	if failed(err) || waits[c.name] {
		r.write()
	}
}

// waits has the calls after which rows are written at once, because the host waits there
// anyway, or because they can be the last calls of a program.
var waits = map[string]bool{
	"cuStreamSynchronize": true, "cuEventSynchronize": true, "cuCtxSynchronize": true,
	"cuDevicePrimaryCtxRelease": true, "cuCtxDestroy": true,
}

// addOp adds the row of an operation.
func (r *Recorder) addOp(driver int, o *opRow) {
	if r.log != nil {
		r.log.LogAttrs(context.Background(), slog.LevelDebug, o.name, slog.Uint64("op", o.id), slog.Uint64("call", o.call),
			slog.String("engine", o.engine), slog.Uint64("bytes", o.bytes), slog.Int64("start_ns", o.start), slog.Int64("end_ns", o.end))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	b := row{append(r.buf, `{"op":`...)}
	b.buf = strconv.AppendUint(b.buf, o.id, 10)
	b.num("call", int64(o.call))
	b.text("name", o.name)
	b.num("driver", int64(driver))
	b.num("device", int64(o.device))
	if o.stream != noStreamNumber {
		b.num("stream", int64(o.stream))
	}
	b.text("engine", o.engine)
	b.optional("from", o.from)
	b.optional("to", o.to)
	if o.bytes != 0 {
		b.num("bytes", int64(o.bytes))
	}
	if o.count != 0 {
		b.num("count", int64(o.count))
	}
	if o.untimed != "" {
		b.text("untimed", o.untimed)
	} else {
		b.num("queued", o.queued)
		b.num("start", o.start)
		b.num("end", o.end)
	}
	if o.after != 0 {
		b.num("after", int64(o.after))
	}
	b.optional("why", o.why)
	if o.part != "" {
		b.text("part", o.part)
		b.num("part_ns", o.partTime)
	}
	r.buf = append(b.buf, "}\n"...)
	r.added(rowOp)
}

// addDriver adds the row of a driver.
func (r *Recorder) addDriver(id int, clock, profile string) {
	r.addRow(`{"driver":`, id, func(b *row) {
		b.text("clock", clock)
		b.optional("profile", profile)
	})
}

// addDevice adds the row of a device's name.
func (r *Recorder) addDevice(id, driver int, name string, node int) {
	r.addRow(`{"device":`, id, func(b *row) {
		b.num("driver", int64(driver))
		b.text("name", name)
		if node != NoNode {
			b.num("node", int64(node))
		}
	})
}

// addSite adds the row of a line of the program.
func (r *Recorder) addSite(id int, p place) {
	r.addRow(`{"site":`, id, func(b *row) {
		b.text("file", p.File)
		b.num("line", int64(p.Line))
		b.text("func", p.Func)
	})
}

// addRow adds a row that is not counted.
func (r *Recorder) addRow(key string, id int, fields func(*row)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	b := row{strconv.AppendInt(append(r.buf, key...), int64(id), 10)}
	fields(&b)
	r.buf = append(b.buf, "}\n"...)
	r.added(-1)
}

// row appends the fields of a JSON object.
type row struct{ buf []byte }

func (b *row) key(key string) {
	b.buf = append(b.buf, ',', '"')
	b.buf = append(b.buf, key...)
	b.buf = append(b.buf, '"', ':')
}

func (b *row) num(key string, v int64) {
	b.key(key)
	b.buf = strconv.AppendInt(b.buf, v, 10)
}

func (b *row) optional(key, v string) {
	if v != "" {
		b.text(key, v)
	}
}

// text appends a string. Ordinary text needs no escape.
func (b *row) text(key, v string) {
	b.key(key)
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(v)
			b.buf = append(b.buf, quoted...)
			return
		}
	}
	b.buf = append(b.buf, '"')
	b.buf = append(b.buf, v...)
	b.buf = append(b.buf, '"')
}
