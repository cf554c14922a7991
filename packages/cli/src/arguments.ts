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
  const { values, positionals } = parse(argv);
  const [verb, name, ...more] = positionals;
  if (values.help || verb === undefined || verb === "help") return { verb: "help" };
  if (more.length > 0) throw misuse(`Unexpected argument: ${more[0]}`);
  const { url, workspace, model, "client-id": clientId } = values;
  if ((url !== undefined || clientId !== undefined) && verb !== "login")
    throw misuse("--url and --client-id are for login.");
  if ((workspace !== undefined || model !== undefined) && verb !== "connect") {
    throw misuse("--workspace and --model are for connect.");
  }
  switch (verb) {
    case "login":
    case "logout":
    case "status":
      if (name !== undefined) throw misuse(`${verb} takes no argument: ${name}`);
      return verb === "login" ? { verb, url, clientId: clientId ?? defaultClientId } : { verb };
    case "connect":
      return { verb, tool: toolOf(name), workspace, model };
    case "disconnect":
      return { verb, tool: toolOf(name) };
    case "token":
      return { verb, tool: name === undefined ? undefined : toolOf(name) };
    default:
      throw misuse(`Unknown command: ${verb}`);
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
    throw misuse(error instanceof Error ? error.message : String(error));
  }
}

function toolOf(name: string | undefined): Tool {
  const tool = tools.find((one) => one === name);
  if (tool) return tool;
  throw misuse(name === undefined ? "Name a coding agent." : `Unknown coding agent: ${name}`);
}

function misuse(message: string): Failure {
  return new Failure("usage", `${message}\n\n${usage}`);
}
