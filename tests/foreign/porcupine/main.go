// Judges histories of zonequake by Porcupine, somebody else's checker of linearizability.
//
//	porcupine-judge [options] FILE...
//
// Reads history lines (docs/history.md) and prints one JSON object per key, sorted by zone, partition
// and key. It shares no code with our own checkers, so that a fault in them shows as a disagreement.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// The verdicts on a key.
const (
	legal   = "legal"    // some order explains every answer
	illegal = "illegal"  // none does
	unknown = "unknown"  // the time for one key ran out
	leftOut = "left-out" // not a question of linearizability, or too long; `reason` says which
)

// Verdict is what is known about one key.
type Verdict struct {
	Zone       string `json:"zone"`
	Partition  int    `json:"partition"`
	Key        string `json:"key"`
	Verdict    string `json:"verdict"`
	Operations int    `json:"operations"`
	Reason     string `json:"reason,omitempty"`
}

func main() {
	offset := flag.Int64("clock-offset-ns", 0, "widen each operation by this much at both ends")
	limit := flag.Duration("time-per-key", time.Minute, "after this a key's verdict is unknown")
	most := flag.Int("most-operations", 20_000, "keys with more operations are left out")
	plain := flag.Bool("plain", false, "search without looking ahead; slow, to compare")
	workers := flag.Int("workers", 2, "keys judged at a time")
	flag.Parse()
	keys, err := readFiles(flag.Args(), *offset)
	if err != nil {
		fmt.Fprintln(os.Stderr, "porcupine-judge:", err)
		os.Exit(2)
	}
	verdicts := make([]Verdict, len(keys))
	var running sync.WaitGroup
	turn := make(chan struct{}, *workers)
	for i, key := range keys {
		running.Add(1)
		turn <- struct{}{}
		go func() {
			defer running.Done()
			verdicts[i] = judge(key, *limit, *most, *plain)
			<-turn
		}()
	}
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for _, verdict := range verdicts {
		if err := encoder.Encode(verdict); err != nil {
			fmt.Fprintln(os.Stderr, "porcupine-judge:", err)
			os.Exit(2)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "porcupine-judge:", err)
		os.Exit(2)
	}
}

func judge(key *Key, limit time.Duration, most int, plain bool) Verdict {
	operations := key.operations()
	verdict := Verdict{
		Zone: key.zone, Partition: key.partition, Key: key.name, Operations: len(operations),
	}
	if reason := key.foreign(); reason != "" {
		verdict.Verdict, verdict.Reason = leftOut, reason
		return verdict
	}
	if len(operations) > most {
		verdict.Verdict, verdict.Reason = leftOut, "too many operations"
		return verdict
	}
	switch porcupine.CheckOperationsTimeout(cell(operations, plain), operations, limit) {
	case porcupine.Ok:
		verdict.Verdict = legal
	case porcupine.Illegal:
		verdict.Verdict = illegal
	default:
		verdict.Verdict = unknown
	}
	return verdict
}
