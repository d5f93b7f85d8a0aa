package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// tryImage runs the service below a folder that has the files of the image alone, and returns what
// it answers. Only root can do that.
func tryImage(root string, files []file) (answer string, err error) {
	if err := unpack(root, files); err != nil {
		return "", err
	}
	cmd := exec.Command("/service")
	if !confine(cmd, root) {
		return "not tried: it takes root, on Linux", nil
	}
	cmd.Env = []string{"FERRY_DEVICE=soft"}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start the service in %s: %w", root, err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the service in %s says no address: %w", root, err)
	}
	return ask("http://" + strings.TrimSpace(address))
}

// ask sends numbers to the service and checks its answer.
func ask(url string) (answer string, err error) {
	body, err := binary.Append(nil, binary.LittleEndian, []float32{1, 41})
	if err != nil {
		return "", err
	}
	r, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	got := make([]float32, 2)
	if _, err := binary.Decode(data, binary.LittleEndian, got); err != nil || got[0] != 2 || got[1] != 42 {
		return "", fmt.Errorf("the service answers %s, %q: %v", r.Status, data, err)
	}
	return fmt.Sprintf("1 and 41 become %v and %v on the software GPU", got[0], got[1]), nil
}
