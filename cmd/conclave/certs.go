package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/certs"
)

const certsUsage = `usage: conclave certs ca    --dir DIR
       conclave certs issue --dir DIR --role aggregator|node|student --name NAME [--hosts HOST,...] [--days N]
A node's name is its site. An aggregator needs the hosts it is dialled by.`

func certificates(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "ca":
			return createCA(ctx, args[1:])
		case "issue":
			return issue(ctx, args[1:])
		}
	}
	fmt.Fprintln(os.Stderr, certsUsage)
	return errUsage
}

func createCA(_ context.Context, args []string) error {
	f := flags("certs ca", "certs ca --dir DIR")
	dir := f.String("dir", "", "folder for the authority; ca.key must stay secret")
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name a folder")
	}
	if err := certs.CreateCA(*dir); err != nil {
		return err
	}
	fmt.Printf("authority in %s; keep ca.key secret, give ca.crt to everybody\n", *dir)
	return nil
}

func issue(_ context.Context, args []string) error {
	f := flags("certs issue", "certs issue --dir DIR --role ROLE --name NAME [--hosts HOST,...] [--days N]")
	dir := f.String("dir", "", "folder of the authority")
	role := f.String("role", "", "aggregator, node or student")
	name := f.String("name", "", "name in the certificate; a node's is its site")
	hosts := f.String("hosts", "", "names and addresses an aggregator is dialled by, with commas")
	days := f.Int("days", 365, "days the certificate is valid")
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *role == "" || *name == "" {
		return misuse(f, "--dir, --role and --name are needed")
	}
	var list []string
	if *hosts != "" {
		list = strings.Split(*hosts, ",")
	}
	if err := certs.Issue(*dir, certs.Role(*role), *name, list, time.Duration(*days)*24*time.Hour); err != nil {
		return err
	}
	files := certs.IssuedFiles(*dir, certs.Role(*role), *name)
	fmt.Printf("%s\n%s\n", files.Cert, files.Key)
	return nil
}
