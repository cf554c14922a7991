import { z } from "zod";
import { parseExactJson } from "#shared/exact-json.ts";
import { exactUtcText } from "#shared/utc-time.ts";
import { isReadable } from "../../http/readable.ts";
import { amountText } from "../../ui/format-amount.ts";
import { budgetAmount } from "../budgets/budget-amount.ts";

/** The coding agents that the `gatehouse` command connects. */
export const agentTool = z.enum(["claude", "codex", "opencode"]);
export type AgentTool = z.infer<typeof agentTool>;

/** The display names of the agents. The database uses them in the names of the agents' keys. */
export const agentNames: Readonly<Record<AgentTool, string>> = {
  claude: "Claude Code",
  codex: "Codex",
  opencode: "opencode",
};

/** The maximum number of calls that an envelope can state. */
const maxEnvelopeCalls = 1_000_000_000;

/**
 * The request body for connecting an agent. `host` is the computer's display name. `envelope` limits all calls of the
 * connection.
 */
export const newConnection = z.strictObject({
  tool: agentTool,
  host: z.string().trim().min(1).max(64).refine(isReadable, "must be one line of characters that can be seen"),
  envelope: z
    .strictObject({
      limitUsd: budgetAmount.refine((amount) => amount !== "0", "must be more than 0"),
      maxCalls: z.number().int().min(1).max(maxEnvelopeCalls).optional(),
    })
    .optional(),
});
export type NewConnection = z.output<typeof newConnection>;

/** Parses the JSON of a {@link newConnection} and keeps all digits of its amount. @throws SyntaxError */
export const parseConnection = (text: string): unknown => parseExactJson(text, (name) => name === "limitUsd");

/** The envelope of a connected agent. Amounts are exact strings, null if the workspace hides costs. */
export const agentEnvelope = z.object({
  id: z.uuid(),
  state: z.enum(["open", "ended", "expired"]),
  limitUsd: amountText.nullable(),
  spentUsd: amountText.nullable(),
  reservedUsd: amountText.nullable(),
  maxCalls: z.number().nullable(),
  calls: z.number(),
  endsAt: exactUtcText,
});
export type AgentEnvelope = z.infer<typeof agentEnvelope>;

/** A connected agent, as shown to the member who connected it. */
const agentConnection = z.object({
  id: z.uuid(),
  tool: agentTool,
  host: z.string(),
  createdAt: exactUtcText,
  state: z.enum(["connected", "revoked"]),
  /** When the agent's latest key expires, or null if it has no key. */
  keyExpiresAt: exactUtcText.nullable(),
  /** The latest envelope that holds all calls of the agent, or null if there was none. */
  envelope: agentEnvelope.nullable(),
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
