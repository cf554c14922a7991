import { z } from "zod";
import { exactUtcText } from "#shared/utc-time.ts";
import { isReadable } from "../../http/readable.ts";

/** The coding agents that the `gatehouse` command connects. */
export const agentTool = z.enum(["claude", "codex", "opencode"]);
export type AgentTool = z.infer<typeof agentTool>;

/** The agents' names for people. The database uses the same names for keys. */
export const agentNames: Readonly<Record<AgentTool, string>> = {
  claude: "Claude Code",
  codex: "Codex",
  opencode: "opencode",
};

/** The body that connects an agent. `host` names the computer for people. */
export const newConnection = z.strictObject({
  tool: agentTool,
  host: z.string().trim().min(1).max(64).refine(isReadable, "must be one line of characters that can be seen"),
});
export type NewConnection = z.infer<typeof newConnection>;

/** A connected agent as its member sees it. */
const agentConnection = z.object({
  id: z.uuid(),
  tool: agentTool,
  host: z.string(),
  createdAt: exactUtcText,
  state: z.enum(["connected", "revoked"]),
  /** When its latest key expires; null if it has none. */
  keyExpiresAt: exactUtcText.nullable(),
});

/** The agents of a login in a workspace, and the state of the member's request. */
export const agentList = z.object({
  access: z.enum(["approved", "open", "declined", "withdrawn", "none"]),
  connections: z.array(agentConnection),
});
export type AgentList = z.infer<typeof agentList>;

/** The result of connecting an agent: a connection, or a request that a key manager has to answer. */
export const connected = z.union([
  z.object({ state: z.literal("connected"), connection: agentConnection }),
  z.object({ state: z.literal("requested") }),
]);
export type Connected = z.infer<typeof connected>;

/** A new key of an agent, in the only answer that ever holds its secret. */
export const agentKey = z.object({
  secret: z.string(),
  expiresAt: exactUtcText,
  /** The gateway's address, without `/v1`. */
  gatewayUrl: z.string(),
});
export type AgentKey = z.infer<typeof agentKey>;
