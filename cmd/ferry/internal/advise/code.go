package advise

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
	"text/template"
)

// code returns Go code that makes the steps of a job in a way: a file with a function.
func code(w way, j *Job) (string, error) {
	d := codeData{Way: w, Kind: w.kind, Path: w.path, In: j.In / 4, Out: j.Out / 4, Parts: w.parts, Streams: w.streams,
		InPlace: w.inPlace(), OutPlace: w.outPlace(), T: "float32", Source: j.Source, Title: w.String(), Devices: j.Devices}
	if j.Devices > 1 { // the code of one of them
		d.In, d.Out = j.part(0, j.Devices).In/4, j.part(0, j.Devices).Out/4
	}
	if j.Source == File {
		d.T, d.In, d.Out = "byte", 4*d.In, 4*d.Out
	}
	var b bytes.Buffer
	if err := codeTemplate.Execute(&b, d); err != nil {
		return "", fmt.Errorf("code for %v: %w", w, err)
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return "", fmt.Errorf("code for %v: %w", w, err)
	}
	return string(text), nil
}

// codeData is what the template knows.
type codeData struct {
	Way               way
	Title, Kind, Path string
	T, Source         string
	In, Out           int // elements of T
	Parts, Streams    int
	InPlace, OutPlace bool
	Devices           int
}

// HasIn and the other methods are the conditions of the template.
func (d codeData) HasIn() bool    { return d.In > 0 }
func (d codeData) HasOut() bool   { return d.Out > 0 }
func (d codeData) FromFile() bool { return d.Source == File && d.In > 0 }
func (d codeData) Existing() bool { return d.Source == Existing }
func (d codeData) Staged() bool   { return d.Path == Staged }
func (d codeData) Chunks() bool   { return d.Path == Pipelined }
func (d codeData) Each() bool     { return d.Path == EachTime }
func (d codeData) Prefetch() bool { return d.Path == Prefetched }
func (d codeData) Heap() bool     { return d.Kind == Pageable || d.Each() }
func (d codeData) N() int         { return max(d.In, d.Out) }

// Arguments returns the parameters of the kernel that stand for the user's.
func (d codeData) Arguments(in, out, n string) string {
	args := []string{}
	if d.HasIn() {
		args = append(args, in)
	}
	if d.HasOut() {
		args = append(args, out)
	}
	return strings.Join(append(args, "uint64("+n+")"), ", ")
}

// Host returns the expression that allocates host memory.
func (d codeData) Host(in bool) string {
	place, other := d.InPlace, d.Kind == WriteCombined && in
	if !in {
		place = d.OutPlace
	}
	options := "nil"
	switch {
	case place && other:
		options = "&ferry.HostOptions{\nMapped: true, WriteCombined: true,\n}"
	case place:
		options = "&ferry.HostOptions{\nMapped: true,\n}"
	}
	n := "outLen"
	if in {
		n = "inLen"
	}
	if d.Kind == Managed {
		return fmt.Sprintf("ferry.AllocManaged[%s](gpu, %s, nil)", d.T, n)
	}
	return fmt.Sprintf("ferry.AllocHost[%s](gpu, %s, %s)", d.T, n, options)
}

var codeTemplate = template.Must(template.New("code").Parse(`package main

import (
	"context"
	{{if .FromFile}}"errors"
	"io"
	{{end}}
	{{if .Prefetch}}{{if .HasOut}}"github.com/ferrygpu/ferry/cu"
	{{end}}{{end}}"github.com/ferrygpu/ferry"{{if .Staged}}
	"github.com/ferrygpu/ferry/pipeline"{{end}}
)

// process makes steps with this memory and path:
// {{.Title}}.
{{if .Existing}}// The data stays where it is.
{{end}}// {{if .FromFile}}Each step reads its input from r, until that ends.{{else}}produce prepares the data of a step, and returns false after the last.{{end}}
{{if .HasOut}}// consume uses the results.
{{end}}{{if gt .Devices 1}}// Call it in a goroutine for each device, with its part of the data.
{{end}}func process(
	ctx context.Context, gpu *ferry.GPU, kernel *ferry.Kernel,
	{{if .Existing}}{{if .HasIn}}inData{{end}}{{if and .HasIn .HasOut}}, {{end}}{{if .HasOut}}outData{{end}} []{{.T}},
	{{end}}{{if .FromFile}}r io.Reader{{else}}produce func({{if and .HasIn (not .Existing)}}in []{{.T}}{{end}}) bool{{end}}{{if .HasOut}}, consume func(out []{{.T}}){{end}},
) error {
	{{if .Existing}}{{else}}{{if .HasIn}}const inLen = {{.In}}
	{{end}}{{if .HasOut}}const outLen = {{.Out}}
	{{end}}{{end}}{{if not .Staged}}stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	{{end}}{{template "memory" .}}
	for {{if .FromFile}}{ {{else}}produce({{if and .HasIn (not .Existing)}}{{if .Heap}}inData{{else}}in.Slice(){{end}}{{end}}) { {{end}}
		{{if .FromFile}}if _, err := io.ReadFull(r, {{if .Heap}}inData{{else}}in.Slice(){{end}}); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		{{end}}{{if .Each}}{{template "each" .}}{{else}}{{template "step" .}}{{end}}
		{{if .HasOut}}consume({{if .Heap}}outData{{else if .Existing}}out.ReadSlice(){{else}}out.ReadSlice(){{end}})
	{{end}}}
	{{if not .FromFile}}return nil
	{{end}}}
{{define "memory"}}
	{{- if .HasIn}}{{if .Heap}}{{if not .Existing}}inData := make([]{{.T}}, inLen)
	{{end}}{{else}}in, err := {{if .Existing}}ferry.Register(gpu, inData, {{if .InPlace}}&ferry.RegisterOptions{Mapped: true}{{else}}nil{{end}}){{else}}{{.Host true}}{{end}}
	if err != nil {
		return err
	}
	defer in.Close()
	{{end}}{{end}}
	{{- if .HasOut}}{{if .Heap}}{{if not .Existing}}outData := make([]{{.T}}, outLen)
	{{end}}{{else}}out, err := {{if .Existing}}ferry.Register(gpu, outData, {{if .OutPlace}}&ferry.RegisterOptions{Mapped: true}{{else}}nil{{end}}){{else}}{{.Host false}}{{end}}
	if err != nil {
		return err
	}
	defer out.Close()
	{{end}}{{end}}
	{{- if .Staged}}p := &pipeline.Pipeline{
		GPU: gpu,
		{{if .HasIn}}In: []pipeline.End{ferry.Pageable(inData)},
		{{end}}{{if .HasOut}}Out: []pipeline.End{ferry.Pageable(outData)},
		{{end}}Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			grid := gpu.GridStride(c.Len)
			return s.Launch(kernel, grid, {{.Arguments "c.In[0]" "c.Out[0]" "c.Len"}})
		},
	}
	defer p.Close()
	{{else}}{{if and .HasIn (not .InPlace)}}inDev, err := ferry.Alloc[{{.T}}](gpu, {{if .Existing}}len(inData){{else}}inLen{{end}})
	if err != nil {
		return err
	}
	defer inDev.Close()
	{{end}}{{if and .HasOut (not .OutPlace)}}outDev, err := ferry.Alloc[{{.T}}](gpu, {{if .Existing}}len(outData){{else}}outLen{{end}})
	if err != nil {
		return err
	}
	defer outDev.Close()
	{{end}}{{end}}
	{{- if .Chunks}}const parts = {{.Parts}}
	streams := []*ferry.Stream{stream}
	for len(streams) < {{.Streams}} {
		s, err := ferry.NewStream(gpu, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		streams = append(streams, s)
	}
	{{end}}
{{- end}}
{{define "step"}}
	{{- if .Staged}}if _, err := p.Run(ctx); err != nil {
			return err
		}
	{{- else if .Chunks}}for i := range parts {
			s := streams[i%len(streams)]
			{{if .HasIn}}first, end := i*in.Len()/parts, (i+1)*in.Len()/parts
			inPart := inDev.Range(first, end)
			if err := ferry.Copy(s, inPart, in.Range(first, end)); err != nil {
				return err
			}
			{{end}}{{if .HasOut}}{{if .HasIn}}from, to{{else}}first, end{{end}} := i*out.Len()/parts, (i+1)*out.Len()/parts
			outPart := outDev.Range({{if .HasIn}}from, to{{else}}first, end{{end}})
			{{end}}n := end - first
			err := s.Launch(kernel, gpu.GridStride(n), {{.Arguments "inPart" "outPart" "n"}})
			if err != nil {
				return err
			}
			{{if .HasOut}}if err := ferry.Copy(s, out.Range({{if .HasIn}}from, to{{else}}first, end{{end}}), outPart); err != nil {
				return err
			}
		{{end}}}
		for _, s := range streams {
			if err := s.Wait(ctx); err != nil {
				return err
			}
		}
	{{- else}}{{if .Prefetch}}{{if .HasIn}}if err := in.Prefetch(stream, gpu.CUDevice()); err != nil {
			return err
		}
		{{end}}{{if .HasOut}}if err := out.Prefetch(stream, gpu.CUDevice()); err != nil {
			return err
		}
		{{end}}{{else if and .HasIn (not .InPlace)}}if err := ferry.Copy(stream, inDev, {{if .Heap}}ferry.Pageable(inData){{else}}in{{end}}); err != nil {
			return err
		}
		{{end}}n := {{template "length" .}}
		err := stream.Launch(kernel, gpu.GridStride(n), {{template "arguments" .}})
		if err != nil {
			return err
		}
		{{if .Prefetch}}{{if .HasOut}}if err := out.Prefetch(stream, cu.CPUDevice); err != nil {
			return err
		}
		{{end}}{{else if and .HasOut (not .OutPlace)}}if err := ferry.Copy(stream, {{if .Heap}}ferry.Pageable(outData){{else}}out{{end}}, outDev); err != nil {
			return err
		}
		{{end}}if err := stream.Wait(ctx); err != nil {
			return err
		}
	{{- end}}
{{- end}}
{{define "length"}}{{if .HasIn}}{{if .Existing}}len(inData){{else}}inLen{{end}}{{else}}{{if .Existing}}len(outData){{else}}outLen{{end}}{{end}}{{end}}
{{define "arguments"}}{{if .HasIn}}{{if .InPlace}}in{{else}}inDev{{end}}, {{end}}{{if .HasOut}}{{if .OutPlace}}out{{else}}outDev{{end}}, {{end}}uint64(n){{end}}
{{define "each"}}{{if .HasIn}}in, err := ferry.Register(gpu, inData, nil)
		if err != nil {
			return err
		}
		{{end}}{{if .HasOut}}out, err := ferry.Register(gpu, outData, nil)
		if err != nil {
			{{if .HasIn}}in.Close()
			{{end}}return err
		}
		{{end}}{{if .HasIn}}if err := ferry.Copy(stream, inDev, in); err != nil {
			return err
		}
		{{end}}n := {{template "length" .}}
		err = stream.Launch(kernel, gpu.GridStride(n), {{template "arguments" .}})
		if err != nil {
			return err
		}
		{{if .HasOut}}if err := ferry.Copy(stream, out, outDev); err != nil {
			return err
		}
		{{end}}if err := stream.Wait(ctx); err != nil {
			return err
		}
		{{if .HasIn}}if err := in.Close(); err != nil {
			return err
		}
		{{end}}{{if .HasOut}}if err := out.Close(); err != nil {
			return err
		}
		{{end}}
{{- end}}
`))
