package page

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// chromium is a headless Chromium, driven by its DevTools protocol over two pipes: messages
// of JSON, each ended by a zero byte.
type chromium struct {
	t       *testing.T
	session string
	out     *os.File
	last    int
	answers chan answer
	events  chan answer // page loads only

	mu       sync.Mutex
	problems []string // messages on the console, exceptions, failed loads and requests
}

// answer is a message of the browser.
type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// patience is how long a test waits for the browser. A browser that is slower is taken to
// hang.
const patience = time.Minute

// newChromium starts a browser, or skips the test where there is none. With
// FERRY_REQUIRE_CHROMIUM=1 the test fails instead.
func newChromium(t *testing.T) *chromium {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this test drives the browser over inherited pipes, which Go on Windows lacks")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if os.Getenv("FERRY_REQUIRE_CHROMIUM") == "1" {
			t.Fatal("no Chromium here, and FERRY_REQUIRE_CHROMIUM=1")
		}
		t.Skip("no chromium, chromium-browser or google-chrome in PATH: pages are not tried in a browser")
	}
	fromTest, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{fromTest, toTest}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromTest.Close()
	toTest.Close()
	c := &chromium{t: t, out: toBrowser, answers: make(chan answer, 100), events: make(chan answer, 100)}
	done := make(chan struct{})
	go func() { defer close(done); c.read(fromBrowser) }()
	t.Cleanup(func() { c.t = t; c.stop(cmd, done) })
	return c
}

// tab opens a tab for a test, which closes it at its end.
func (c *chromium) tab(t *testing.T) *chromium {
	t.Helper()
	c.t, c.session = t, ""
	var target struct {
		ID string `json:"targetId"`
	}
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	t.Cleanup(func() {
		c.session = ""
		c.call("Target.closeTarget", map[string]any{"targetId": target.ID}, nil)
		c.takeProblems()
	})
	c.attach(target.ID)
	return c
}

// stop ends the browser, and waits until it has written its files.
func (c *chromium) stop(cmd *exec.Cmd, done chan struct{}) {
	c.session = ""
	c.send("Browser.close", nil)
	select {
	case <-done:
	case <-time.After(patience):
		cmd.Process.Kill()
	}
	c.out.Close()
	cmd.Wait()
}

// read distributes the messages of the browser until it ends.
func (c *chromium) read(from *os.File) {
	defer close(c.answers)
	defer from.Close()
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if err := json.Unmarshal(text[:len(text)-1], &a); err != nil {
			c.problem("a message that is not JSON: " + err.Error())
			continue
		}
		switch a.Method {
		case "":
			c.answers <- a
		case "Page.loadEventFired":
			c.events <- a
		case "Log.entryAdded":
			if !bytes.Contains(a.Params, []byte("willReadFrequently")) { // that warns of the test's own script
				c.problem(a.Method + " " + string(a.Params))
			}
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.requestWillBeSent":
			c.problem(a.Method + " " + string(a.Params))
		}
	}
}

// problem notes a message that a good page does not cause. The page's own load is none.
func (c *chromium) problem(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, text)
}

// takeProblems returns the problems since the last call.
func (c *chromium) takeProblems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.problems
	c.problems = nil
	return all
}

func (c *chromium) send(method string, params any) int {
	c.last++
	m := map[string]any{"id": c.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if c.session != "" {
		m["sessionId"] = c.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = c.out.Write(append(text, 0))
	}
	if err != nil {
		c.t.Errorf("%s: %v", method, err)
	}
	return c.last
}

// call calls a method and decodes its result, unless into is nil.
func (c *chromium) call(method string, params, into any) {
	c.t.Helper()
	id := c.send(method, params)
	for {
		select {
		case a, ok := <-c.answers:
			switch {
			case !ok:
				c.t.Fatalf("%s: the browser has ended", method)
			case a.ID != id:
				continue
			case a.Error != nil:
				c.t.Fatalf("%s: %s", method, a.Error.Message)
			}
			if into != nil {
				if err := json.Unmarshal(a.Result, into); err != nil {
					c.t.Fatalf("%s: %v", method, err)
				}
			}
			return
		case <-time.After(patience):
			c.t.Fatalf("%s: no answer", method)
		}
	}
}

// attach sends all further calls to a tab.
func (c *chromium) attach(target string) {
	var session struct {
		ID string `json:"sessionId"`
	}
	c.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &session)
	c.call("Browser.grantPermissions", map[string]any{"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil)
	c.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
	}
	c.call("Page.bringToFront", nil, nil)
}

// look sets what the browser shows: the width of the window, the colours and the medium.
func (c *chromium) look(width int, scheme, medium string) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// open loads a file, and demands that it loads nothing else.
func (c *chromium) open(path string) {
	c.t.Helper()
	c.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	select {
	case <-c.events:
	case <-time.After(patience):
		c.t.Fatal("the page does not load")
	}
	if got := c.takeProblems(); len(got) != 1 { // the request of the page itself
		c.t.Errorf("%s: while it loads: %q", filepath.Base(path), got)
	}
	c.eval(`new Promise(done => {
		const root = document.documentElement, look = () => root.classList.contains("wait") ? setTimeout(look, 5) : done(1);
		look();
	})`, nil) // until the loader has ended
}

// eval runs a script and decodes its value, for which it waits.
func (c *chromium) eval(script string, into any) {
	c.t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	c.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r)
	if r.Exception != nil {
		c.t.Fatalf("%.200s: %s %s", script, r.Exception.Text, r.Exception.Exception.Description)
	}
	if into == nil {
		return
	}
	if len(r.Result.Value) == 0 {
		c.t.Fatalf("%.200s: no value", script)
	}
	if err := json.Unmarshal(r.Result.Value, into); err != nil {
		c.t.Fatalf("%.200s: %v", script, err)
	}
}

// text returns the text that a script evaluates to.
func (c *chromium) text(script string, args ...any) (s string) {
	c.t.Helper()
	c.eval(fmt.Sprintf(script, args...), &s)
	return s
}

// number returns the number that a script evaluates to.
func (c *chromium) number(script string, args ...any) (n float64) {
	c.t.Helper()
	c.eval(fmt.Sprintf(script, args...), &n)
	return n
}

// key presses a key.
func (c *chromium) key(name string) {
	c.t.Helper()
	text := ""
	if len(name) == 1 {
		text = name
	}
	c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name, "text": text}, nil)
	c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name}, nil)
	c.settle()
}

// drag drags the mouse over the plot of a chart, between two parts of its width.
func (c *chromium) drag(id string, from, to float64) {
	c.t.Helper()
	var box [4]float64
	c.eval(fmt.Sprintf(`(() => { const e = document.querySelector("#%s .u-over"); e.scrollIntoView({block: "center"}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height] })()`, id), &box)
	y := box[1] + box[3]/2
	for i, kind := range []string{"mouseMoved", "mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"} {
		part := from
		if i >= 2 {
			part = from + (to-from)*float64(min(i-1, 2))/2
		}
		params := map[string]any{"type": kind, "x": box[0] + part*box[2], "y": y, "button": "left", "clickCount": 1}
		if kind == "mouseMoved" {
			delete(params, "clickCount")
			params["buttons"] = min(i, 1)
		}
		c.call("Input.dispatchMouseEvent", params, nil)
	}
	c.settle()
}

// settle waits until the page has drawn.
func (c *chromium) settle() {
	c.t.Helper()
	c.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`, nil)
}

// screenshot writes the page, as high as it is or a height, to a file in the directory
// FERRY_SCREENSHOTS, if that is set.
func (c *chromium) screenshot(name string, width, height int) {
	c.t.Helper()
	dir := os.Getenv("FERRY_SCREENSHOTS")
	if dir == "" {
		return
	}
	if height == 0 {
		height = int(c.number(`document.documentElement.scrollHeight`))
	}
	var shot struct {
		Data string `json:"data"`
	}
	c.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil && len(data) < 1000 {
		err = errors.New("the screenshot is empty")
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		c.t.Error(err)
	}
}
