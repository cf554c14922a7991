import { z } from "zod";
import { exactUtcText } from "#shared/utc-time.ts";
import { isReadable } from "../../http/readable.ts";

/** The coding agents that the `gatehouse` command connects. */
export const agentTool = z.enum(["claude", "codex", "opencode"]);
export type AgentTool = z.infer<typeof agentTool>;

/** The display names of the agents. The database uses them in the names of the agents' keys. */
export const agentNames: Readonly<Record<AgentTool, string>> = {
  claude: "Claude Code",
  codex: "Codex",
  opencode: "opencode",
};

/** The request body for connecting an agent. `host` is the computer's display name. */
export const newConnection = z.strictObject({
  tool: agentTool,
  host: z.string().trim().min(1).max(64).refine(isReadable, "must be one line of characters that can be seen"),
});
export type NewConnection = z.infer<typeof newConnection>;

/** A connected agent, as shown to the member who connected it. */
const agentConnection = z.object({
  id: z.uuid(),
  tool: agentTool,
  host: z.string(),
  createdAt: exactUtcText,
  state: z.enum(["connected", "revoked"]),
  /** When the agent's latest key expires, or null if it has no key. */
  keyExpiresAt: exactUtcText.nullable(),
});

/** The agent connections of a login in a workspace, and whether the member may create more. */
export const agentList = z.object({
  access: z.enum(["approved", "open", "declined", "withdrawn", "none"]),
  connections: z.array(agentConnection),
});
export type AgentList = z.infer<typeof agentList>;

/** The result of connecting an agent: a connection, or a request that a key manager has to answer. */
export const connectResult = z.union([
  z.object({ state: z.literal("connected"), connection: agentConnection }),
  z.object({ state: z.literal("requested") }),
]);
export type ConnectResult = z.infer<typeof connectResult>;

/** A new agent key. No other response contains its secret. */
export const agentKey = z.object({
  secret: z.string(),
  expiresAt: exactUtcText,
  /** The gateway's address, without `/v1`. */
  gatewayUrl: z.string(),
});
export type AgentKey = z.infer<typeof agentKey>;
