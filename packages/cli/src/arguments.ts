import { parseArgs } from "node:util";
import { Failure } from "./failure.ts";

/** The coding agents that the command configures. */
export const tools = ["claude", "codex", "opencode"] as const;
export type Tool = (typeof tools)[number];

export const toolNames: Readonly<Record<Tool, string>> = {
  claude: "Claude Code",
  codex: "Codex",
  opencode: "opencode",
};

/** The verbs that need a checkout of the platform, where `npm run gatehouse` knows them. */
const checkoutVerbs = ["admin", "app", "doctor", "email-templates", "import-costs", "mobile", "prices"];

/** The OpenID client that platforms register for the command. */
const defaultClientId = "gatehouse";

export interface ConnectOptions {
  tool: Tool;
  workspace: string | undefined;
  model: string | undefined;
  /** The limit of everything that the agent spends and calls. */
  limit: { usd: number; calls: number | undefined } | undefined;
}

export type Command =
  | { verb: "help" }
  | { verb: "login"; url: string | undefined; clientId: string }
  | { verb: "logout" }
  | ({ verb: "connect" } & ConnectOptions)
  | { verb: "disconnect"; tool: Tool }
  | { verb: "token"; tool: Tool | undefined }
  | { verb: "status" };

export const usage = `gatehouse login [--url https://app.example.com] [--client-id ID]
gatehouse connect claude|codex|opencode [--workspace NAME|ID] [--model MODEL]
                  [--limit USD [--limit-calls N]]
gatehouse status
gatehouse token [claude|codex|opencode]
gatehouse disconnect claude|codex|opencode
gatehouse logout

login       Signs in by a code that you approve in a browser.
connect     Configures a coding agent for a workspace. It gets short-lived keys; you paste none.
            With --limit, it can spend at most that amount. You raise or end the limit in a browser.
status      Shows the sign-in, each agent's workspace, budget, limit and spend, and how long its key lasts.
token       Prints a valid key. Agents call this by themselves.
disconnect  Revokes an agent's keys and removes what connect wrote.
logout      Ends the sign-in and all keys that came from it.

GATEHOUSE_URL replaces --url.`;

/**
 * Reads the command line.
 * @throws Failure
 */
export function readCommand(argv: readonly string[]): Command {
  const [first = ""] = argv;
  if (checkoutVerbs.includes(first)) {
    throw new Failure("usage", `${first} runs in a checkout of the platform: npm run gatehouse -- ${first}`);
  }
  const { values, positionals } = parse(argv);
  const [verb, name, ...more] = positionals;
  if (values.help || verb === undefined || verb === "help") return { verb: "help" };
  if (more.length > 0) throw new Misuse(`Unexpected argument: ${more[0]}`);
  const { url, workspace, model, limit, "limit-calls": limitCalls, "client-id": clientId } = values;
  if ((url !== undefined || clientId !== undefined) && verb !== "login")
    throw new Misuse("--url and --client-id are for login.");
  if ((workspace !== undefined || model !== undefined) && verb !== "connect") {
    throw new Misuse("--workspace and --model are for connect.");
  }
  if ((limit !== undefined || limitCalls !== undefined) && verb !== "connect") {
    throw new Misuse("--limit and --limit-calls are for connect.");
  }
  switch (verb) {
    case "login":
    case "logout":
    case "status":
      if (name !== undefined) throw new Misuse(`${verb} takes no argument: ${name}`);
      return verb === "login" ? { verb, url, clientId: clientId ?? defaultClientId } : { verb };
    case "connect":
      return { verb, tool: parseTool(name), workspace, model, limit: parseLimit(limit, limitCalls) };
    case "disconnect":
      return { verb, tool: parseTool(name) };
    case "token":
      return { verb, tool: name === undefined ? undefined : parseTool(name) };
    default:
      throw new Misuse(`Unknown command: ${verb}`);
  }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        help: { type: "boolean", short: "h" },
        url: { type: "string" },
        "client-id": { type: "string" },
        workspace: { type: "string" },
        model: { type: "string" },
        limit: { type: "string" },
        "limit-calls": { type: "string" },
      },
    });
  } catch (error) {
    throw new Misuse(error instanceof Error ? error.message : String(error));
  }
}

function parseLimit(usd: string | undefined, calls: string | undefined): ConnectOptions["limit"] {
  if (usd === undefined) {
    if (calls === undefined) return undefined;
    throw new Misuse("--limit-calls needs --limit.");
  }
  // Numbers of these digits are exact, and so is their JSON.
  if (!/^\$?\d{1,9}(\.\d{1,6})?$/.test(usd) || !/[1-9]/.test(usd)) {
    throw new Misuse(`--limit takes an amount in US dollars, such as 5 or 0.50: ${usd}`);
  }
  if (calls !== undefined && !/^[1-9]\d{0,8}$/.test(calls)) {
    throw new Misuse(`--limit-calls takes a number of calls, such as 200: ${calls}`);
  }
  return { usd: Number(usd.replace("$", "")), calls: calls === undefined ? undefined : Number(calls) };
}

function parseTool(name: string | undefined): Tool {
  const tool = tools.find((one) => one === name);
  if (tool) return tool;
  throw new Misuse(name === undefined ? "Name a coding agent." : `Unknown coding agent: ${name}`);
}

/** A command line that needs the usage text next to the message. */
export class Misuse extends Failure {
  constructor(message: string) {
    super("usage", message);
  }
}
