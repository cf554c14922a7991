import type { Stack } from "../../test/stack.ts";
import type { Call } from "./call.ts";
import type { Tenants } from "./tenants.ts";

/** Ours first. */
export const targetNames = ["gatehouse", "bare", "portkey"] as const;
export type TargetName = (typeof targetNames)[number];

/** Something that answers chats, and the process that does. */
export type Target = {
  name: TargetName;
  label: string;
  pid: number;
  /** One of many tenants a call. */
  spread: Call;
  /** All calls of one tenant. */
  hot: Call;
};

/** Our functions, asked as the platform asks them: directly, since hosted Supabase's own relay is not ours to measure. */
export function ourTarget(stack: Stack, { keys, hotKey }: Tenants): Target {
  const functions = stack.services.find(({ name }) => name === "functions");
  if (!functions) throw new Error("The stack runs without its functions.");
  const url = `http://127.0.0.1:${functions.port}/chat/completions`;
  const call = (texts: string[]): Call => ({ url, headers: {}, authorizations: texts.map((text) => `Bearer ${text}`) });
  return { name: "gatehouse", label: "Gatehouse", pid: functions.pid, spread: call(keys), hot: call([hotKey]) };
}

/** The upstream itself. */
export function bareTarget({ url, pid }: { url: string; pid: number }): Target {
  const call = { url: `${url}/v1/chat/completions`, headers: {}, authorizations: ["Bearer bench"] };
  return { name: "bare", label: "upstream alone", pid, spread: call, hot: call };
}

/** Portkey's gateway, which knows neither tenants nor credits and passes the provider's key on. */
export function portkeyTarget({ url, pid, upstream }: { url: string; pid: number; upstream: string }): Target {
  const call = {
    url: `${url}/v1/chat/completions`,
    headers: { "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream}/v1` },
    authorizations: ["Bearer bench"],
  };
  return { name: "portkey", label: "Portkey", pid, spread: call, hot: call };
}
