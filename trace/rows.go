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
	untimed    string  // why there are no times; "" if there are
	origin     *origin // nil if nobody observes
}

// addCall adds the row of a call.
func (r *Recorder) addCall(c *call, end int64, err error) {
	if r.log != nil {
		r.log.LogAttrs(context.Background(), slog.LevelDebug, c.name, slog.Uint64("call", c.id),
			slog.Uint64("bytes", c.bytes), slog.Int64("start_ns", c.start), slog.Int64("end_ns", end), slog.Any("error", err))
	}
	stream := c.d.names.stream(c.stream)
	r.tellCall(c, stream, end, err)
	if r.path == "" {
		return
	}
	var space [rowBytes]byte
	b := row(space[:0])
	b = b.num(`{"call":`, int64(c.id))
	b = b.plain(`,"name":"`, c.name)
	b = b.num(`,"driver":`, int64(c.d.id))
	b = b.num(`,"start":`, c.start)
	b = b.num(`,"end":`, end)
	b = b.num(`,"track":`, int64(c.track))
	b = b.num(`,"site":`, int64(c.site))
	if stream != noStreamNumber {
		b = b.num(`,"stream":`, int64(stream))
	}
	b = b.some(`,"bytes":`, int64(c.bytes))
	b = b.some(`,"address":`, int64(c.address))
	b = b.some(`,"source":`, int64(c.source))
	if c.kind != "" {
		b = b.plain(`,"memory":"`, c.kind)
	}
	if c.node != NoNode {
		b = b.num(`,"node":`, int64(c.node))
	}
	if err != nil {
		why := err.Error()
		b = b.text(`,"error":`, why[:min(len(why), 200)])
	}
	r.add(b, rowCall, failed(err) || waits[c.name])
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
	r.tellOp(o)
	if r.path == "" {
		return
	}
	var space [rowBytes]byte
	b := row(space[:0])
	b = b.num(`{"op":`, int64(o.id))
	b = b.num(`,"call":`, int64(o.call))
	b = b.text(`,"name":`, o.name)
	b = b.num(`,"driver":`, int64(driver))
	b = b.num(`,"device":`, int64(o.device))
	if o.stream != noStreamNumber {
		b = b.num(`,"stream":`, int64(o.stream))
	}
	b = b.text(`,"engine":`, o.engine)
	b = b.optional(`,"from":`, o.from)
	b = b.optional(`,"to":`, o.to)
	b = b.some(`,"bytes":`, int64(o.bytes))
	b = b.some(`,"count":`, int64(o.count))
	if o.untimed != "" {
		b = b.text(`,"untimed":`, o.untimed)
	} else {
		b = b.num(`,"queued":`, o.queued)
		b = b.num(`,"start":`, o.start)
		b = b.num(`,"end":`, o.end)
	}
	b = b.some(`,"after":`, int64(o.after))
	b = b.optional(`,"why":`, o.why)
	if o.part != "" {
		b = b.text(`,"part":`, o.part)
		b = b.num(`,"part_ns":`, o.partTime)
	}
	r.add(b, rowOp, false)
}

// addDriver adds the row of a driver.
func (r *Recorder) addDriver(id int, clock, profile string) {
	r.addRow(`{"driver":`, id, func(b row) row {
		return b.text(`,"clock":`, clock).optional(`,"profile":`, profile)
	})
}

// addDevice adds the row of a device's name.
func (r *Recorder) addDevice(id, driver int, name string, node int) {
	r.addRow(`{"device":`, id, func(b row) row {
		b = b.num(`,"driver":`, int64(driver)).text(`,"name":`, name)
		if node != NoNode {
			b = b.num(`,"node":`, int64(node))
		}
		return b
	})
}

// addSite adds the row of a line of the program.
func (r *Recorder) addSite(id int, p place) {
	r.addRow(`{"site":`, id, func(b row) row {
		b = b.text(`,"file":`, p.File).num(`,"line":`, int64(p.Line)).text(`,"func":`, p.Func)
		if p.Pipeline {
			b = append(b, `,"pipeline":true`...)
		}
		return b
	})
}

// addRow adds a row that is not counted.
func (r *Recorder) addRow(key string, id int, fields func(row) row) {
	b := make(row, 0, rowBytes)
	b = b.num(key, int64(id))
	b = fields(b)
	r.add(b, rowOther, false)
}

// add adds a row to the buffer, and writes that to the file if the row is urgent.
func (r *Recorder) add(b row, kind int, urgent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	r.buf = append(append(r.buf, b...), "}\n"...)
	r.added(kind)
	if urgent {
		r.write()
	}
}

// rowBytes is the length of a usual row, or more.
const rowBytes = 512

// row is the text of a JSON object so far. Its methods append fields. A key has what stands before
// its value: the comma, the quotation marks and the colon. That is one append for each.
type row []byte

func (b row) num(key string, v int64) row { return strconv.AppendInt(append(b, key...), v, 10) }

// some appends a number that is not 0.
func (b row) some(key string, v int64) row {
	if v == 0 {
		return b
	}
	return b.num(key, v)
}

func (b row) optional(key, v string) row {
	if v == "" {
		return b
	}
	return b.text(key, v)
}

// plain appends a string of Ferry's own, which needs no escape. The key ends with a quotation mark.
func (b row) plain(key, v string) row { return append(append(append(b, key...), v...), '"') }

// text appends a string. Ordinary text needs no escape.
func (b row) text(key, v string) row {
	b = append(b, key...)
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(v)
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), v...), '"')
}
