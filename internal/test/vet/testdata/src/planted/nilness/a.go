package nilness

type list struct{ next *list }

func after(l *list) *list {
	if l == nil {
		return l.next // want "nil dereference in field selection"
	}
	return l.next
}
