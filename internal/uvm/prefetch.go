package uvm

// threshold is the percentage of a subtree that must be resident or wanted for
// all of it to come.
const threshold = 51

// prefetch is the pages that come to a processor beside those that it faulted on.
// The tree's leaves are the pages it has and the big pages of those it faulted on;
// each fault brings the largest subtree around it that is dense enough.
func (s *Space) prefetch(b *block, faulted *mask, to Processor, a Advice) (ahead mask) {
	if a.Preferred == to && b.held().empty() { // the first touch, where all of it belongs
		ahead.fill(0, blockPages)
		ahead.andNot(faulted)
		return b.within(ahead)
	}
	thrashing := b.thrash.pages
	tree := b.resident[to.slot()]
	tree.or(faulted)
	for first := 0; first < blockPages; first += bigPages {
		if faulted.count(first, first+bigPages) > 0 && thrashing.count(first, first+bigPages) == 0 {
			tree.fill(first, first+bigPages)
		}
	}
	for i := faulted.next(0); i < blockPages; i = faulted.next(i + 1) {
		if thrashing.has(i) {
			continue
		}
		first, past := dense(&tree, i)
		ahead.fill(first, past)
		if past == blockPages {
			break
		}
	}
	ahead.andNot(faulted)
	ahead.andNot(&b.resident[to.slot()])
	ahead.andNot(&thrashing)
	return b.within(ahead)
}

// dense is the largest subtree around a page that is dense enough.
func dense(tree *mask, page int) (first, past int) {
	first, past = page, page+1
	for n := 1; n <= blockPages; n *= 2 {
		at := page &^ (n - 1)
		if tree.count(at, at+n)*100 > n*threshold {
			first, past = at, at+n
		}
	}
	return first, past
}

// within is the pages of m that belong to an allocation.
func (b *block) within(m mask) (out mask) {
	for _, r := range b.ranges {
		first, past := b.span(r)
		var all mask
		all.fill(first, past)
		out.or(&all)
	}
	out.and(&m)
	return out
}

// span is the pages of b that r has bytes in.
func (b *block) span(r *Range) (first, past int) {
	start := b.page(0)
	first = int(max(r.Page(0), start) - start)
	past = int(min(r.Page(r.size-1)+1, start+blockPages) - start)
	return first, past
}
