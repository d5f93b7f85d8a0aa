package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// first returns a text with a capital letter at its start.
func first(text string) string {
	for i, r := range text {
		return string(unicode.ToUpper(r)) + text[i+len(string(r)):]
	}
	return ""
}

// join joins sentences that are not empty.
func join(all ...string) string {
	var some []string
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, " ")
}

// bound adds a dashed line at a height.
func (c *Chart) bound(name string, y float64) {
	s := Series{Name: name, Dashed: true}
	for _, x := range c.xs() {
		s.Points = append(s.Points, Point{x, y})
	}
	c.Series = append(c.Series, s)
}

// highest returns the series with the highest point, and that point. Of series that differ
// by less than 1 % it takes the first.
func (c *Chart) highest() (best *Series, top Point) {
	for i := range c.Series {
		for _, p := range c.Series[i].Points {
			if same := best == &c.Series[i]; best == nil || same && p.Y > top.Y || p.Y > 1.01*top.Y {
				best, top = &c.Series[i], p
			}
		}
	}
	return best, top
}

// reaches returns the smallest place from which on the series is never below y.
func (s *Series) reaches(y float64) (x float64, ok bool) {
	for i := len(s.Points) - 1; i >= 0 && s.Points[i].Y >= y; i-- {
		x, ok = s.Points[i].X, true
	}
	return x, ok
}

// lowest returns the series with the lowest value at a place.
func (c *Chart) lowest(x float64) *Series {
	var best *Series
	least := math.Inf(1)
	for i := range c.Series {
		if y, ok := c.Series[i].at(x); ok && y < least && !c.Series[i].Dashed {
			best, least = &c.Series[i], y
		}
	}
	return best
}

// fastest says which series has the lowest time in which range.
func (c *Chart) fastest() string {
	xs := c.xs()
	var parts []string
	for i := 0; i < len(xs); {
		best, j := c.lowest(xs[i]), i
		if best == nil {
			i++
			continue
		}
		for j+1 < len(xs) && c.lowest(xs[j+1]) == best {
			j++
		}
		where := "at " + c.X.Unit.text(xs[i])
		if j > i {
			where = fmt.Sprintf("from %s to %s", c.X.Unit.text(xs[i]), c.X.Unit.text(xs[j]))
		}
		parts = append(parts, best.Name+" "+where)
		i = j + 1
	}
	if len(parts) == 0 {
		return ""
	}
	return "Fastest: " + strings.Join(parts, "; ") + "."
}

// extremes names the series with the highest and the lowest value at the largest place.
func (c *Chart) extremes(highest string) string {
	xs := c.xs()
	x := xs[len(xs)-1]
	var most *Series
	top := math.Inf(-1)
	for i := range c.Series {
		if y, ok := c.Series[i].at(x); ok && y > top {
			most, top = &c.Series[i], y
		}
	}
	least := c.lowest(x)
	if least == nil || most == least {
		return fmt.Sprintf("%s: %s at %s.", first(most.Name), c.Y.Unit.text(top), c.X.Unit.text(x))
	}
	low, _ := least.at(x)
	return fmt.Sprintf("At %s, %s is the %s (%s), and %s has the least (%s).", c.X.Unit.text(x), most.Name, highest, c.Y.Unit.text(top), least.Name, c.Y.Unit.text(low))
}

// spread says by how much the series differ whose names begin with a prefix, at the largest
// place that all of them have.
func (c *Chart) spread(prefix string) string {
	var some []*Series
	for i := range c.Series {
		if strings.HasPrefix(c.Series[i].Name, prefix) {
			some = append(some, &c.Series[i])
		}
	}
	xs := c.xs()
	for i := len(xs) - 1; i >= 0 && len(some) > 1; i-- {
		if text := spreadAt(some, xs[i]); text != "" {
			return text
		}
	}
	return ""
}

// spreadAt returns "" if a series has no value at the place.
func spreadAt(some []*Series, x float64) string {
	var fast, slow *Series
	var high, low float64
	for _, s := range some {
		y, ok := s.at(x)
		if !ok {
			return ""
		}
		if fast == nil || y > high {
			fast, high = s, y
		}
		if slow == nil || y < low {
			slow, low = s, y
		}
	}
	return fmt.Sprintf("At %s, %s has %s and %s has %s: a factor of %s.", sizeText(x), fast.Name, Rate.text(high), slow.Name, Rate.text(low), digits(high/low))
}

// maxMarks is the number of crossovers that a chart labels.
const maxMarks = 5

// crossovers marks where the lowest series changes, and where the two of a pair cross last,
// and says so. Dashed series do not count.
func (c *Chart) crossovers(pairs [][2]string) string {
	var parts []string
	xs := c.xs()
	for i := 1; i < len(xs); i++ {
		before, after := c.lowest(xs[i-1]), c.lowest(xs[i])
		if before != nil && after != nil && before != after {
			parts = c.cross(parts, before, after, xs[i-1], xs[i])
		}
	}
	for _, pair := range pairs {
		parts = c.crossLast(parts, c.named(pair[0]), c.named(pair[1]))
	}
	if len(parts) == 0 {
		return ""
	}
	return first(strings.Join(parts, "; ")) + "."
}

// crossLast marks the last crossing of two series, which may be nil.
func (c *Chart) crossLast(parts []string, a, b *Series) []string {
	xs := c.xs()
	for i := len(xs) - 1; i > 0 && a != nil && b != nil; i-- {
		switch before, after := order(a, b, xs[i-1]), order(a, b, xs[i]); {
		case before < 0 && after > 0:
			return c.cross(parts, a, b, xs[i-1], xs[i])
		case before > 0 && after < 0:
			return c.cross(parts, b, a, xs[i-1], xs[i])
		}
	}
	return parts
}

// cross marks where a series gives way to another one between two places, and adds what to
// say of it. It does nothing if they do not cross there, or did before.
func (c *Chart) cross(parts []string, before, after *Series, x0, x1 float64) []string {
	x, ok := meet(before, after, x0, x1)
	if !ok || len(c.Marks) == maxMarks {
		return parts
	}
	if x >= 10 {
		x = math.Round(x)
	}
	at := c.X.Unit.text(x)
	m := Mark{x, fmt.Sprintf("%s beats %s from %s", after.Name, before.Name, at), after.Name + " from " + at}
	if slices.Contains(c.Marks, m) {
		return parts
	}
	c.Marks = append(c.Marks, m)
	return append(parts, fmt.Sprintf("%s and %s cross at about %s", before.Name, after.Name, at))
}

// named returns the series of a name, or nil.
func (c *Chart) named(name string) *Series {
	for i := range c.Series {
		if c.Series[i].Name == name {
			return &c.Series[i]
		}
	}
	return nil
}

// order returns -1 if a is below b at a place, 1 if it is above, and 0 if neither is so.
func order(a, b *Series, x float64) int {
	y, ok := a.at(x)
	z, also := b.at(x)
	if !ok || !also {
		return 0
	}
	return cmp.Compare(y, z)
}

// meet returns where two series cross between two places that both have.
func meet(s, t *Series, x0, x1 float64) (x float64, ok bool) {
	s0, a := s.at(x0)
	s1, b := s.at(x1)
	t0, c := t.at(x0)
	t1, d := t.at(x1)
	if !a || !b || !c || !d {
		return 0, false
	}
	return crossing(Point{x0, s0}, Point{x1, s1}, Point{x0, t0}, Point{x1, t1}), true
}

// crossing returns where the line from a to b crosses that from c to d, on logarithmic axes.
// The lines begin at one place and end at another, and cross between.
func crossing(a, b, c, d Point) float64 {
	from, to := math.Log(a.Y/c.Y), math.Log(b.Y/d.Y)
	if from == to {
		return a.X
	}
	part := max(0, min(1, from/(from-to)))
	return a.X * math.Pow(b.X/a.X, part)
}
