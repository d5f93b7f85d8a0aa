package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestService: a request gets its numbers plus 1, and one of a wrong size is refused with its size.
func TestService(t *testing.T) {
	t.Setenv("FERRY_DEVICE", "soft")
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.gpu.Close()
	server := httptest.NewServer(s)
	defer server.Close()

	numbers := make([]float32, 1000)
	for i := range numbers {
		numbers[i] = float32(i) / 2
	}
	status, answer := post(t, server.URL, encode(t, numbers))
	for i := range numbers {
		numbers[i]++
	}
	if want := encode(t, numbers); status != http.StatusOK || !bytes.Equal(answer, want) {
		t.Errorf("status %d, %d bytes %.40q, want %d bytes", status, len(answer), answer, len(want))
	}
	for size, want := range map[int]string{0: "a body of 0 bytes", 7: "a body of 7 bytes"} {
		status, answer := post(t, server.URL, make([]byte, size))
		if status != http.StatusBadRequest || !strings.Contains(string(answer), want) {
			t.Errorf("%d bytes: status %d, %q", size, status, answer)
		}
	}
}

func encode(t *testing.T, numbers []float32) []byte {
	t.Helper()
	data, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func post(t *testing.T, url string, body []byte) (status int, answer []byte) {
	t.Helper()
	r, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err = io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, answer
}
