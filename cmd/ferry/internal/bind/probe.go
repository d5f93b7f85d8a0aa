package bind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ferrygpu/ferry/compile"
)

// probeName begins the names of probe kernels. A number follows.
const probeName = "ferry_bind_"

// probeHead has the templates of the probe. ferry_tag carries a type and numbers.
// ferry_bind_under gives the integer of an enumeration. ferry_bind_size is 0 for a type that
// is only declared. NVRTC has no __builtin_offsetof, and only its __INTADDR__ makes a number
// of an address.
const probeHead = `
#ifdef __CUDACC_RTC__
#define FERRY_OFFSET(field, ...) __INTADDR__(&((__VA_ARGS__ *)0)->field)
#else
#define FERRY_OFFSET(field, ...) __builtin_offsetof(__VA_ARGS__, field)
#endif
template <class T, unsigned long long... N> struct ferry_tag {};
template <class T, bool = __is_enum(T)> struct ferry_bind_under { typedef T type; };
template <class T> struct ferry_bind_under<T, true> { typedef __underlying_type(T) type; };
template <class T, class = void> struct ferry_bind_size { static const unsigned long long size = 0, align = 0; };
template <class T> struct ferry_bind_size<T, decltype(void(sizeof(T)))> { static const unsigned long long size = sizeof(T), align = alignof(T); };
`

// compiler compiles a source: compile.Source.
type compiler func(ctx context.Context, name string, source []byte, o *compile.Options) (*compile.Result, error)

// prober asks the compiler about a source.
type prober struct {
	compile compiler
	name    string
	source  []byte
	options compile.Options
}

// ask compiles the source with one probe kernel for each question, which is the text of its
// parameters. The answers are in the same order. One that the compiler refuses has no
// answer, nil. ask finds these by halves.
func (p *prober) ask(ctx context.Context, questions []string) ([][]tag, error) {
	answers, err := p.try(ctx, questions)
	_, refused := errors.AsType[*compile.Error](err)
	switch {
	case !refused:
		return answers, err
	case len(questions) < 2:
		return make([][]tag, len(questions)), nil
	}
	half := len(questions) / 2
	first, err := p.ask(ctx, questions[:half])
	if err != nil {
		return nil, err
	}
	second, err := p.ask(ctx, questions[half:])
	return append(first, second...), err
}

// entryNames finds the names of kernels in PTX. It is used for the output of a probe, which
// has no comments with other text.
var entryNames = regexp.MustCompile(`\.entry\s+([\w$]+)`)

// try asks all questions in one compilation.
func (p *prober) try(ctx context.Context, questions []string) ([][]tag, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	source := bytes.NewBuffer(bytes.Clone(p.source))
	source.WriteString("\n" + probeHead)
	for i, q := range questions {
		fmt.Fprintf(source, "__global__ void %s%d(%s) {}\n", probeName, i, q)
	}
	r, err := p.compile(ctx, p.name, source.Bytes(), &p.options)
	if err != nil {
		return nil, err
	}
	answers := make([][]tag, len(questions))
	for _, m := range entryNames.FindAllSubmatch(r.PTX, -1) {
		if i, tags, ok := readTags(string(m[1])); ok && i < len(answers) {
			answers[i] = tags
		}
	}
	return answers, nil
}

// signatureQuestion asks for the parameter types of a kernel.
func signatureQuestion(kernel string) string { return "ferry_tag<decltype(&" + kernel + ")>" }

// signatureAnswer returns the parameter types. ok is false if there is no answer.
func signatureAnswer(tags []tag) (params []*ctype, ok bool) {
	if len(tags) != 1 {
		return nil, false
	}
	p := tags[0].typ
	if p.kind != nodePointer || p.elem.kind != nodeFunction {
		return nil, false
	}
	return readParams(p.elem), true
}

// layoutQuestion asks for size, alignment and fields of a named type.
func layoutQuestion(name string, fields []srcField) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ferry_tag<ferry_bind_under<%[1]s>::type, ferry_bind_size<%[1]s>::size, ferry_bind_size<%[1]s>::align, __is_enum(%[1]s)>", name)
	for _, f := range fields {
		fmt.Fprintf(&b, ", ferry_tag<decltype(%[1]s::%[2]s), sizeof(%[1]s::%[2]s), FERRY_OFFSET(%[2]s, %[1]s)>", name, f.name)
	}
	return b.String()
}

// layout is what the compiler tells about a named type.
type layout struct {
	size, align int // 0 for a type that is only declared
	enum        *ctype
	fields      []layoutField // nil if they are not known
	why         string        // there are no fields: the reason
}

// layoutField is a field of a structure.
type layoutField struct {
	name         string
	typ          *ctype
	offset, size int
}

// layoutAnswer returns the layout of a type. rec may be nil.
func layoutAnswer(tags []tag, rec *srcRecord) *layout {
	if len(tags) == 0 || len(tags[0].numbers) != 3 {
		return nil
	}
	l := &layout{size: tags[0].numbers[0], align: tags[0].numbers[1]}
	if tags[0].numbers[2] != 0 {
		l.enum = readType(tags[0].typ)
		return l
	}
	for i, t := range tags[1:] {
		if len(t.numbers) != 2 {
			return nil
		}
		f := layoutField{rec.fields[i].name, readType(t.typ), t.numbers[1], t.numbers[0]}
		if f.typ.kind == reference { // sizeof is that of what it refers to
			f.size = f.typ.size
		}
		l.fields = append(l.fields, f)
	}
	return l
}

// layouts asks for the layouts of named types, and of those that their fields have.
func (p *prober) layouts(ctx context.Context, src *source, names []string) (map[string]*layout, error) {
	all := map[string]*layout{}
	for len(names) > 0 {
		next, err := p.layoutRound(ctx, src, names)
		if err != nil {
			return nil, err
		}
		names = nil
		for name, l := range next {
			all[name] = l
		}
		for _, l := range next {
			for _, f := range l.fields {
				names = addNamed(names, all, f.typ)
			}
		}
	}
	return all, nil
}

// addNamed adds the name of the type that a type consists of or points to, if its layout is
// not known yet.
func addNamed(names []string, known map[string]*layout, t *ctype) []string {
	for t.elem != nil {
		t = t.elem
	}
	if t.kind != named || known[t.name] != nil {
		return names
	}
	for _, n := range names {
		if n == t.name {
			return names
		}
	}
	return append(names, t.name)
}

// layoutRound asks for some layouts.
func (p *prober) layoutRound(ctx context.Context, src *source, names []string) (map[string]*layout, error) {
	var questions []string
	var records []*srcRecord
	for _, name := range names {
		rec := src.candidates(name)[0]
		questions, records = append(questions, layoutQuestion(name, rec.fields)), append(records, rec)
	}
	answers, err := p.ask(ctx, questions)
	if err != nil {
		return nil, err
	}
	all := map[string]*layout{}
	for i, name := range names {
		l := layoutAnswer(answers[i], records[i])
		if l == nil {
			if l, err = p.layoutAgain(ctx, name, src.candidates(name)[1:]); err != nil {
				return nil, err
			}
		} else {
			l.check(records[i])
		}
		all[name] = l
	}
	return all, nil
}

// layoutAgain asks for the layout of a type whose first structure in the text is not the one
// that the compiler sees. It tries the others, and at last no fields.
func (p *prober) layoutAgain(ctx context.Context, name string, others []*srcRecord) (*layout, error) {
	for _, rec := range append(others, &srcRecord{}) {
		answer, err := p.ask(ctx, []string{layoutQuestion(name, rec.fields)})
		if err != nil {
			return nil, err
		}
		if l := layoutAnswer(answer[0], rec); l != nil {
			l.check(rec)
			return l, nil
		}
	}
	return &layout{why: "the compiler does not tell its size"}, nil
}

// candidates returns what the text says about a structure. There is at least one result.
func (s *source) candidates(name string) []*srcRecord {
	if i := strings.IndexByte(name, '<'); i >= 0 && s.records[name] == nil {
		name = name[:i]
	}
	var out []*srcRecord
	for _, r := range s.records[name] {
		if r.plain {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return []*srcRecord{{}}
	}
	return out
}

// check removes the fields if they do not explain the size: then the text has others that
// were not understood.
func (l *layout) check(rec *srcRecord) {
	if len(rec.fields) == 0 {
		l.why = "its fields are not in the text, or are not plain data"
		return
	}
	end := 0
	for i, f := range l.fields {
		if gap := f.offset - end; gap < 0 || gap >= naturalAlign(f.typ) && !rec.fields[i].aligned {
			l.fields, l.why = nil, fmt.Sprintf("the text does not explain the bytes before its field %s", f.name)
			return
		}
		end = f.offset + f.size
	}
	if l.size-end >= max(l.align, 1) {
		l.fields, l.why = nil, "the text does not explain its last bytes"
	}
}

// naturalAlign returns the alignment of a type without attributes. For a named type it is
// the largest that is usual.
func naturalAlign(t *ctype) int {
	for t.kind == array {
		t = t.elem
	}
	if t.kind == named {
		return 16
	}
	return max(t.size, 1)
}
