import { expect, test } from "vitest";
import { readCommand } from "./arguments.ts";

test.each([
  [[], { verb: "help" }],
  [["connect", "--help"], { verb: "help" }],
  [["login"], { verb: "login", url: undefined, clientId: "gatehouse" }],
  [["login", "--url", "a.example", "--client-id", "x"], { verb: "login", url: "a.example", clientId: "x" }],
  [
    ["connect", "codex", "--model", "m"],
    { verb: "connect", tool: "codex", workspace: undefined, model: "m", limit: undefined },
  ],
  [
    ["connect", "codex", "--limit", "$0.50", "--limit-calls", "200"],
    { verb: "connect", tool: "codex", workspace: undefined, model: undefined, limit: { usd: 0.5, calls: 200 } },
  ],
  [
    ["connect", "codex", "--limit", "999999999.999999"],
    {
      verb: "connect",
      tool: "codex",
      workspace: undefined,
      model: undefined,
      limit: { usd: 999_999_999.999999, calls: undefined },
    },
  ],
  [["token"], { verb: "token", tool: undefined }],
  [["disconnect", "opencode"], { verb: "disconnect", tool: "opencode" }],
  [["export"], { verb: "export" }],
  [["plan", "-f", "a.yaml"], { verb: "plan", file: "a.yaml", prune: false }],
  [["api", "get", "models?limit=1"], { verb: "api", method: "GET", path: "models?limit=1", input: undefined }],
  [
    ["api", "PATCH", "plans/a", "--input", "a.json"],
    { verb: "api", method: "PATCH", path: "plans/a", input: "a.json" },
  ],
  [["drift", "--file", "a.yaml", "--prune"], { verb: "drift", file: "a.yaml", prune: true }],
  [["apply", "-f", "a.yaml"], { verb: "apply", file: "a.yaml", prune: false, yes: false, reason: undefined }],
  [
    ["apply", "-f", "a.yaml", "--prune", "--yes", "--reason", " Ticket 1 "],
    { verb: "apply", file: "a.yaml", prune: true, yes: true, reason: "Ticket 1" },
  ],
])("the gatehouse command reads the arguments %j", (argv, command) => {
  expect(readCommand(argv)).toEqual(command);
});

test.each([
  [["conect"], "Unknown command: conect"],
  [["connect"], "Name a coding agent."],
  [["connect", "cursor"], "Unknown coding agent: cursor"],
  [["connect", "codex", "claude"], "Unexpected argument: claude"],
  [["status", "codex"], "status takes no argument: codex"],
  [["logout", "--url", "x"], "--url and --client-id are for login."],
  [["token", "--model", "x"], "--workspace and --model are for connect."],
  [["status", "--limit", "5"], "--limit and --limit-calls are for connect."],
  [["connect", "codex", "--limit-calls", "5"], "--limit-calls needs --limit."],
  [["connect", "codex", "--limit", "0.00"], "--limit takes an amount in US dollars, such as 5 or 0.50: 0.00"],
  [["connect", "codex", "--limit", "1e3"], "--limit takes an amount"],
  [["connect", "codex", "--limit", "1000000000"], "--limit takes an amount"],
  [["connect", "codex", "--limit", "5", "--limit-calls", "0"], "--limit-calls takes a number of calls, such as 200: 0"],
  [["connect", "codex", "--limit", "5", "--limit-calls", "1000000000"], "--limit-calls takes a number of calls"],
  [["login", "--password", "x"], "Unknown option '--password'"],
  [["plan"], "Name the file: gatehouse plan -f platform.yaml"],
  [["apply", "a.yaml"], "apply takes no argument: a.yaml"],
  [["export", "-f", "a.yaml"], "-f is for plan, drift, apply."],
  [["plan", "-f", "a.yaml", "--yes"], "--yes is for apply."],
  [["drift", "-f", "a.yaml", "--reason", "x"], "--reason is for apply."],
  [["api", "PUT", "plans"], "Name a method and a path"],
  [["api", "GET"], "Name a method and a path"],
  [["api", "GET", "plans", "x"], "Unexpected argument: x"],
  [["plan", "-f", "a.yaml", "--input", "x"], "--input is for api."],
  [["login", "--prune"], "--prune is for plan, drift, apply."],
  [["apply", "-f", "a.yaml", "--reason", " "], "--reason takes 1 to 500 characters."],
  [["apply", "-f", "a.yaml", "--reason", "x".repeat(501)], "--reason takes 1 to 500 characters."],
  [["doctor", "--env", "production.env"], "doctor runs in a checkout of the platform: npm run gatehouse -- doctor"],
])("the gatehouse command refuses the arguments %j: %s", (argv, message) => {
  expect(() => readCommand(argv)).toThrow(message);
});
