package main

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/reugn/go-quartz/quartz"
)

// quartzStart is the time whose next starts are listed: a leap year and both switches of daylight saving are ahead.
var quartzStart = time.Date(2027, time.December, 31, 22, 30, 15, 0, time.UTC)

// quartzStarts is how many starts of an expression are listed.
const quartzStarts = 6

// quartzTables: cron expressions as Fleet's Schedules have them.
func quartzTables() []table { return []table{{"quartz.tsv", quartzLines()}} }

// quartzLines: zone, expression and the error, or the next starts.
func quartzLines() []string {
	inputs := inputLines("quartz.txt")
	var lines []string
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			panic(err)
		}
		for _, expression := range distinct(inputs) {
			lines = append(lines, row(zone, quote(expression), quartzResult(expression, location)))
		}
	}
	return lines
}

func quartzResult(expression string, location *time.Location) string {
	trigger, err := quartz.NewCronTriggerWithLoc(expression, location)
	if err != nil {
		return row("!", quote(err.Error()))
	}
	var starts []string
	next := quartzStart.UnixNano()
	for range quartzStarts {
		next, err = trigger.NextFireTime(next)
		if err != nil {
			starts = append(starts, fmt.Sprintf("(%v)", err))
			break
		}
		starts = append(starts, time.Unix(0, next).UTC().Format(time.RFC3339))
	}
	return row("ok", strings.Join(starts, " "))
}
