import { createWriteStream, mkdirSync, renameSync, type WriteStream } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { styleText } from "node:util";

const colours = ["cyan", "magenta", "blue", "green", "yellow", "gray"] as const;
const nameWidth = 10;
const maxRecentLines = 12;
const alertPattern = /\b(warn(ing)?|error|fatal|panic|uncaught|exception)\b/i;

/**
 * Reports whether a service's line is shown on the terminal. Structured lines are judged by their level, others by the
 * words in them.
 */
export function isAlert(line: string, alerts: RegExp = alertPattern): boolean {
  if (!line.startsWith("{")) return alerts.test(line);
  try {
    const { level } = JSON.parse(line) as { level?: unknown };
    if (typeof level === "number") return level >= 40;
    return typeof level === "string" && alerts.test(level);
  } catch {
    return alerts.test(line);
  }
}

export type Terminal = NodeJS.WritableStream & { isTTY?: boolean };

export type Log = {
  /** Logs a line of the runner itself. */
  print: (name: string, text: string) => void;
  /** Copies a service's output to its log file and, if important, to the terminal. */
  follow: (name: string, stream: Readable, alerts?: RegExp) => void;
  /** Returns the last lines that a service wrote. */
  tail: (name: string) => string[];
  fileOf: (name: string) => string;
  /** Sets whether the lines of services go only to their log files. */
  mute: (on: boolean) => void;
};

/**
 * Creates the stack's log: every line of a service goes to `directory/<service>.log` (`.log.1` has the previous run).
 * `terminal` shows the runner's own lines and the services' warnings and errors, or everything if `verbose`.
 */
export function createLog(options: { directory: string; terminal: Terminal; verbose: boolean }): Log {
  const { directory, terminal, verbose } = options;
  const files = new Map<string, WriteStream>();
  const tails = new Map<string, string[]>();
  let isMuted = false;
  mkdirSync(directory, { recursive: true, mode: 0o700 });

  const fileOf = (name: string) => path.join(directory, `${name}.log`);

  function open(name: string): WriteStream {
    const openFile = files.get(name);
    if (openFile) return openFile;
    try {
      renameSync(fileOf(name), `${fileOf(name)}.1`);
    } catch {
      // In the first run, no earlier log file exists.
    }
    const file = createWriteStream(fileOf(name), { mode: 0o600 });
    file.on("error", () => undefined);
    files.set(name, file);
    return file;
  }

  function print(name: string, text: string): void {
    const colour = colours[[...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % colours.length] ?? "gray";
    const label = `${name.padEnd(nameWidth)} │`;
    terminal.write(`${terminal.isTTY ? styleText(colour, label, { stream: terminal }) : label} ${text}\n`);
  }

  return {
    print,
    follow(name, stream, alerts) {
      const file = open(name);
      const lines = tails.get(name) ?? [];
      tails.set(name, lines);
      createInterface({ input: stream }).on("line", (line) => {
        file.write(`${new Date().toISOString()} ${line}\n`);
        lines.push(line);
        if (lines.length > maxRecentLines) lines.shift();
        if (!isMuted && (verbose || isAlert(line, alerts))) print(name, line);
      });
    },
    tail: (name) => [...(tails.get(name) ?? [])],
    fileOf,
    mute(on) {
      isMuted = on;
    },
  };
}
