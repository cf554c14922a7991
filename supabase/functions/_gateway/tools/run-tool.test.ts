import { describe, expect, test } from "vitest";
import { runTool } from "./run-tool.ts";

const context = { time: new Date("2026-07-01T12:34:56.789Z") };
const offered = ["calculator", "current_time"] as const;
const run = (name: string, args: string) => {
  const { succeeded, content } = runTool({ name, arguments: args, offered }, context);
  return { succeeded, ...JSON.parse(content) };
};

describe("Server tools", () => {
  test("the calculator evaluates an expression", () => {
    expect(run("calculator", '{"expression":"6 * 7"}')).toEqual({ succeeded: true, expression: "6 * 7", result: 42 });
  });

  test("the clock returns the run's time, in UTC and in other zones", () => {
    const utc = "2026-07-01T12:34:56.789Z";
    const time = (timezone?: string) => run("current_time", JSON.stringify({ timezone }));
    expect(time()).toEqual({ succeeded: true, utc, timezone: "UTC", local: "2026-07-01T12:34:56+00:00" });
    expect(time("Europe/Rome")).toMatchObject({ local: "2026-07-01T14:34:56+02:00" });
    expect(time("Asia/Kolkata")).toMatchObject({ local: "2026-07-01T18:04:56+05:30" });
    expect(time("Mars/Base")).toEqual({ succeeded: false, error: "Unknown time zone." });
    expect(run("current_time", "")).toMatchObject({ succeeded: true, utc });
  });

  test.for([
    ["calculator", "{", "The arguments are not valid JSON."],
    ["calculator", "{}", "The arguments are not what the tool takes."],
    ["calculator", '{"expression":"1","url":"http://x"}', "The arguments are not what the tool takes."],
    ["calculator", '{"expression":"1/0"}', "The result is not a finite number."],
    ["calculator", JSON.stringify({ expression: "1".repeat(1_001) }), "The arguments are not what the tool takes."],
    ["fetch", "{}", "This tool does not exist."],
    ["constructor", "{}", "This tool does not exist."],
  ])("the tool %s with the arguments %s fails and tells the model why", ([name = "", args = "", error]) => {
    expect(run(name, args)).toEqual({ succeeded: false, error });
  });

  test("a server tool fails if it was not offered to the model", () => {
    const call = { name: "calculator", arguments: '{"expression":"1"}', offered: ["current_time" as const] };
    expect(runTool(call, context).succeeded).toBe(false);
  });
});
