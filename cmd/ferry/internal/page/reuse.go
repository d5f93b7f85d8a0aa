package page

import (
	"fmt"
	"math"
)

// reuse returns the chart of the number of passes from which a copy before the kernel takes
// less time than zero-copy. It is computed from three measured times.
func (by points) reuse() *Chart {
	copies := by.times("copy pinned in")
	far, near := by.times("kernel reads pinned words"), by.times("kernel reads words")
	s := Series{Name: "passes from which a copy wins"}
	for _, x := range by["kernel reads pinned words"] {
		c, n := copies[x.Size], near[x.Size]
		if c > 0 && n > 0 && far[x.Size] > n {
			s.Points = append(s.Points, Point{float64(x.Size), c / (far[x.Size] - n)})
		}
	}
	if len(s.Points) == 0 {
		return nil
	}
	c := &Chart{ID: "reuse", Title: "Reuse from which copying wins", X: size, Y: Axis{"passes over the data", Ratio}, Series: []Series{s}}
	last := s.Points[len(s.Points)-1]
	from := "a copy first wins from " + digits(last.Y) + " passes on"
	if last.Y <= 1 {
		from = "a copy first wins with one pass already"
	}
	c.Sentence = fmt.Sprintf("At %s %s. The number is the time of a page-locked copy, divided by the time that a pass over the link takes longer than one on the device. "+
		"Both the copy and the kernels include a wait, so it is an upper bound. It holds for passes by other blocks: a repeated read in one block may hit a cache.",
		sizeText(last.X), from)
	c.bound("one pass", 1)
	return c
}

// times returns the times of a kind by size.
func (by points) times(kind string) map[int]float64 {
	all := map[int]float64{}
	for _, x := range by[kind] {
		all[x.Size] = x.Median
	}
	return all
}

// passKinds are the kinds that read all words several times.
var passKinds = []struct {
	passes float64
	kind   string
}{{1, "all words in 1 pass"}, {4, "all words in 4 passes"}, {16, "all words in 16 passes"}}

// passes returns the chart of the time of zero-copy, divided by that of a copy and the
// kernel, by the number of passes. It has a line for each size.
func (by points) passes() *Chart {
	c := &Chart{ID: "passes", Title: "Passes over the data: zero-copy against a copy first", X: Axis{"passes over all words", Count}, Y: Axis{"zero-copy / copy and kernel", Ratio}}
	index := map[int]int{}
	for _, k := range passKinds {
		copied := by.times(k.kind + copyFirst)
		for _, x := range by[k.kind+zeroCopy] {
			if copied[x.Size] == 0 {
				continue
			}
			i, ok := index[x.Size]
			if !ok {
				i = len(c.Series)
				index[x.Size] = i
				c.Series = append(c.Series, Series{Name: sizeText(float64(x.Size))})
			}
			c.Series[i].Points = append(c.Series[i].Points, Point{k.passes, x.Median / copied[x.Size]})
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	for i := range c.Series {
		c.Sentence = join(c.Sentence, c.Series[i].winsFrom())
	}
	c.bound("the same time", 1)
	return c
}

// winsFrom says from how many passes a copy wins.
func (s *Series) winsFrom() string {
	for i, p := range s.Points {
		switch {
		case p.Y > 1 && i == 0:
			return fmt.Sprintf("At %s copying wins from %s on.", s.Name, passes(p.X))
		case p.Y > 1:
			return fmt.Sprintf("At %s copying wins from about %s passes on.", s.Name, digits(crossing(s.Points[i-1], p, Point{s.Points[i-1].X, 1}, Point{p.X, 1})))
		}
	}
	return fmt.Sprintf("At %s zero-copy wins up to %s.", s.Name, passes(s.Points[len(s.Points)-1].X))
}

func passes(n float64) string {
	if n == 1 {
		return "1 pass"
	}
	return fmt.Sprintf("%.0f passes", n)
}

// barOf returns the bar of a ratio: its ends are 1/16 and 16.
func barOf(ratio float64) float64 { return max(-1, min(1, math.Log2(ratio)/4)) }
