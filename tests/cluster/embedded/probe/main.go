// Command probe answers over HTTP what a pod sees: names, its volume, its user.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const file = "/data/lines"

// Each request has a connection of its own, as a network policy judges only new ones.
var client = http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   5 * time.Second,
}

func main() {
	http.HandleFunc("/lookup", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.LookupHost(r.URL.Query().Get("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprint(w, strings.Join(addresses, ","))
	})
	http.HandleFunc("/append", func(w http.ResponseWriter, r *http.Request) {
		out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer out.Close()
		fmt.Fprintln(out, r.URL.Query().Get("line"))
	})
	http.HandleFunc("/read", func(w http.ResponseWriter, _ *http.Request) {
		content, err := os.ReadFile(file)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write(content)
	})
	http.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		reply, err := client.Get(r.URL.Query().Get("url"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer reply.Body.Close()
		io.Copy(w, reply.Body)
	})
	http.HandleFunc("/user", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getuid()) })
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	if err := http.ListenAndServe(":8080", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
