// gomemcache: goes through a script of operations and prints the answers. `client HOST:PORT SCRIPT`.
package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// The value that a word of the script stands for.
func valueOf(word string) []byte {
	if !strings.HasPrefix(word, "@") {
		return []byte(word)
	}
	value := make([]byte, number(word[1:]))
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	return value
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

func shown(value []byte) string {
	if len(value) <= 60 {
		return "value " + string(value)
	}
	sum := 0
	for _, b := range value {
		sum += int(b)
	}
	return fmt.Sprintf("value of %d bytes, sum %d", len(value), sum)
}

// What an operation's error means, or that there was none.
func said(err error, good string) string {
	switch {
	case err == nil:
		return good
	case errors.Is(err, memcache.ErrCacheMiss):
		return "miss"
	case errors.Is(err, memcache.ErrNotStored):
		return "not stored"
	case errors.Is(err, memcache.ErrCASConflict):
		return "exists"
	}
	return err.Error()
}

func cas(client *memcache.Client, key, value string, between []byte) string {
	item, err := client.Get(key)
	if err != nil {
		return said(err, "")
	}
	if between != nil {
		if err := client.Set(&memcache.Item{Key: key, Value: between}); err != nil {
			return said(err, "")
		}
	}
	item.Value = []byte(value)
	return said(client.CompareAndSwap(item), "stored")
}

func getMulti(client *memcache.Client, keys []string) string {
	found, err := client.GetMulti(keys)
	var all []string
	for key, item := range found {
		all = append(all, key+"="+string(item.Value))
	}
	sort.Strings(all)
	return said(err, strings.Join(all, " "))
}

func do(client *memcache.Client, words []string) string {
	key := ""
	if len(words) > 1 {
		key = words[1]
	}
	switch words[0] {
	case "set", "add", "replace":
		item := &memcache.Item{Key: key, Value: valueOf(words[2]), Expiration: int32(number(words[3]))}
		store := map[string]func(*memcache.Item) error{"set": client.Set, "add": client.Add, "replace": client.Replace}
		return said(store[words[0]](item), "stored")
	case "append":
		return said(client.Append(&memcache.Item{Key: key, Value: valueOf(words[2])}), "stored")
	case "prepend":
		return said(client.Prepend(&memcache.Item{Key: key, Value: valueOf(words[2])}), "stored")
	case "get":
		item, err := client.Get(key)
		if err != nil {
			return said(err, "")
		}
		return shown(item.Value)
	case "getmulti":
		return getMulti(client, words[1:])
	case "incr":
		value, err := client.Increment(key, uint64(number(words[2])))
		return said(err, fmt.Sprintf("number %d", value))
	case "decr":
		value, err := client.Decrement(key, uint64(number(words[2])))
		return said(err, fmt.Sprintf("number %d", value))
	case "cas":
		return cas(client, key, words[2], nil)
	case "stalecas":
		return cas(client, key, words[2], []byte("meanwhile"))
	case "delete":
		return said(client.Delete(key), "deleted")
	case "touch":
		return said(client.Touch(key, int32(number(words[2]))), "touched")
	case "flush":
		return said(client.FlushAll(), "ok")
	case "sleep":
		time.Sleep(time.Duration(number(key)) * time.Millisecond)
		return "slept"
	}
	return "unknown operation"
}

func main() {
	client := memcache.New(os.Args[1])
	client.Timeout = 10 * time.Second
	script, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(script)), "\n") {
		if !strings.HasPrefix(line, "#") {
			fmt.Println(do(client, strings.Split(line, " ")))
		}
	}
}
