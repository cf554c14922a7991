import { afterEach, expect, test, vi } from "vitest";
import { logError, logEvent, logInfo, logWarning, setLogFormat } from "./log.ts";

const lines: string[] = [];

afterEach(() => {
  setLogFormat("text");
  vi.restoreAllMocks();
  lines.length = 0;
});

function capture(): void {
  for (const method of ["log", "error"] as const) {
    vi.spyOn(console, method).mockImplementation((line) => void lines.push(`${method}: ${line}`));
  }
}

function logAll(): void {
  logError("it failed", { requestId: "r" });
  logWarning("was not sent", { mail: "m" });
  logWarning("was refused", { logout: "l", app: "notes" });
  logInfo("listening");
  logEvent({ level: "error", event: "schedule", members: { task: "sweep", message: "fails" } }, () => "schedule fails");
}

test("logs text with a level and ids by default, failures on stderr", () => {
  capture();
  logAll();
  expect(lines).toEqual([
    "error: error request=r it failed",
    "error: warning mail=m was not sent",
    "error: warning logout=l app=notes was refused",
    "log: listening",
    "log: schedule fails",
  ]);
});

test("logs the same as JSON, one object a line, with a time, a level and an event", () => {
  capture();
  setLogFormat("json");
  logAll();
  const parsed = lines.map((line) => JSON.parse(line.replace(/^\w+: /, "")));
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(parsed).toEqual([
    { time, level: "error", event: "message", request_id: "r", message: "it failed" },
    { time, level: "warn", event: "message", mail_id: "m", message: "was not sent" },
    { time, level: "warn", event: "message", logout_id: "l", app: "notes", message: "was refused" },
    { time, level: "info", event: "message", message: "listening" },
    { time, level: "error", event: "schedule", task: "sweep", message: "fails" },
  ]);
});

test("a message cannot forge a second line of JSON", () => {
  capture();
  setLogFormat("json");
  logError('broken\n{"level":"info"}');
  expect(lines[0]?.split("\n")).toHaveLength(1);
});
