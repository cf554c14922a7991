import { parseArgs } from "node:util";
import { type ApiCommand, apiMethods } from "./api-command.ts";
import { Failure } from "./failure.ts";
import type { PlatformCommand } from "./platform-file/commands.ts";

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
  | { verb: "status" }
  | ApiCommand
  | PlatformCommand;

export const usage = `gatehouse login [--url https://app.example.com] [--client-id ID]
gatehouse connect claude|codex|opencode [--workspace NAME|ID] [--model MODEL]
                  [--limit USD [--limit-calls N]]
gatehouse status
gatehouse token [claude|codex|opencode]
gatehouse disconnect claude|codex|opencode
gatehouse logout
gatehouse export
gatehouse plan|drift -f FILE [--prune]
gatehouse apply -f FILE [--prune] [--yes] [--reason TEXT]
gatehouse api GET|POST|PATCH|DELETE PATH [--input FILE]

login       Signs in by a code that you approve in a browser.
connect     Configures a coding agent for a workspace. It gets short-lived keys; you paste none.
            With --limit, it can spend at most that amount. You raise or end the limit in a browser.
status      Shows the sign-in, each agent's workspace, budget, limit and spend, and how long its key lasts.
token       Prints a valid key. Agents call this by themselves.
disconnect  Revokes an agent's keys and removes what connect wrote.
logout      Ends the sign-in and all keys that came from it.

For operators, as the service account of GATEHOUSE_CLIENT_ID, on the platform of GATEHOUSE_URL:

export      Prints the platform’s configuration as YAML.
plan        Shows what apply would change. Exits with 2 if there is something, and with 1 for an error.
apply       Changes the platform to what the file says, once you have typed its host, or with --yes.
            Nothing is removed or disabled because the file doesn’t name it, except with --prune.
drift       Shows where the platform differs from the file, and who changed it. Exits like plan.
api         Calls an operation of the admin API by its path below /api/v1/admin, such as models/demo-chat.
            FILE is JSON. Prints the answer.

GATEHOUSE_CLIENT_SECRET or GATEHOUSE_PRIVATE_KEY, the file of a JWK, proves the service account.
GATEHOUSE_URL replaces --url.`;

/** The verbs that exit with 2 for differences, and therefore with 1 if they are misused. */
export const comparingVerbs: readonly string[] = ["plan", "drift", "apply"];

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
  const unexpected = verb === "api" ? more[1] : more[0];
  if (unexpected !== undefined) throw new Misuse(`Unexpected argument: ${unexpected}`);
  const { url, workspace, model, limit, "limit-calls": limitCalls, "client-id": clientId } = values;
  if ((url !== undefined || clientId !== undefined) && verb !== "login")
    throw new Misuse("--url and --client-id are for login.");
  if ((workspace !== undefined || model !== undefined) && verb !== "connect") {
    throw new Misuse("--workspace and --model are for connect.");
  }
  if ((limit !== undefined || limitCalls !== undefined) && verb !== "connect") {
    throw new Misuse("--limit and --limit-calls are for connect.");
  }
  const { file, prune = false, yes = false, reason, input } = values;
  if (input !== undefined && verb !== "api") throw new Misuse("--input is for api.");
  const comparing = { "-f": file !== undefined, "--prune": prune, "--yes": yes, "--reason": reason !== undefined };
  for (const [option, isGiven] of Object.entries(comparing)) {
    const verbs = ["-f", "--prune"].includes(option) ? comparingVerbs : ["apply"];
    if (isGiven && !verbs.includes(verb)) throw new Misuse(`${option} is for ${verbs.join(", ")}.`);
  }
  switch (verb) {
    case "export":
    case "plan":
    case "drift":
    case "apply":
      if (name !== undefined) throw new Misuse(`${verb} takes no argument: ${name}`);
      if (verb === "export") return { verb };
      if (file === undefined) throw new Misuse(`Name the file: gatehouse ${verb} -f platform.yaml`);
      return verb === "apply" ? { verb, file, prune, yes, reason: parseReason(reason) } : { verb, file, prune };
    case "api": {
      const method = apiMethods.find((each) => each === name?.toUpperCase());
      const [path] = more;
      if (!method || !path) throw new Misuse("Name a method and a path: gatehouse api GET models");
      return { verb, method, path, input };
    }
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
        file: { type: "string", short: "f" },
        prune: { type: "boolean" },
        yes: { type: "boolean" },
        reason: { type: "string" },
        input: { type: "string" },
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

function parseReason(text: string | undefined): string | undefined {
  const reason = text?.trim();
  // The audit log keeps as much.
  if (reason === "" || (reason?.length ?? 0) > 500) throw new Misuse("--reason takes 1 to 500 characters.");
  return reason;
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
