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

export type Command =
  | { verb: "help" }
  | { verb: "login"; url: string | undefined; clientId: string }
  | { verb: "logout" }
  | { verb: "connect"; tool: Tool; workspace: string | undefined; model: string | undefined }
  | { verb: "disconnect"; tool: Tool }
  | { verb: "token"; tool: Tool | undefined }
  | { verb: "status" };

export const usage = `gatehouse login [--url https://app.example.com] [--client-id ID]
gatehouse connect claude|codex|opencode [--workspace NAME|ID] [--model MODEL]
gatehouse status
gatehouse token [claude|codex|opencode]
gatehouse disconnect claude|codex|opencode
gatehouse logout

login       Signs in by a code that you approve in a browser.
connect     Configures a coding agent for a workspace. It gets short-lived keys; you paste none.
status      Shows the sign-in, each agent's workspace, budget and spend, and how long its key lasts.
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
  const { url, workspace, model, "client-id": clientId } = values;
  if ((url !== undefined || clientId !== undefined) && verb !== "login")
    throw new Misuse("--url and --client-id are for login.");
  if ((workspace !== undefined || model !== undefined) && verb !== "connect") {
    throw new Misuse("--workspace and --model are for connect.");
  }
  switch (verb) {
    case "login":
    case "logout":
    case "status":
      if (name !== undefined) throw new Misuse(`${verb} takes no argument: ${name}`);
      return verb === "login" ? { verb, url, clientId: clientId ?? defaultClientId } : { verb };
    case "connect":
      return { verb, tool: parseTool(name), workspace, model };
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
      },
    });
  } catch (error) {
    throw new Misuse(error instanceof Error ? error.message : String(error));
  }
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
