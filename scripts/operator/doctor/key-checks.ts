import { z } from "zod";
import type { Env } from "../../../remix-app/config/env.server.ts";
import { type Finding, fail, ok } from "./finding.ts";

const askLimitMs = 10_000;
const where = "Dashboard, Settings, API Keys";

type KeyKind = "publishable key" | "secret key" | "legacy anon key" | "legacy service_role key" | "access token";
const kinds: Record<"SUPABASE_PUBLISHABLE_KEY" | "SUPABASE_SECRET_KEY", readonly (KeyKind | undefined)[]> = {
  SUPABASE_PUBLISHABLE_KEY: ["publishable key", "legacy anon key", undefined],
  SUPABASE_SECRET_KEY: ["secret key", "legacy service_role key", undefined],
};
const roleClaim = z.object({ role: z.enum(["anon", "service_role"]) });
/** Supabase's response to a request with a disabled legacy key (supabase.com/docs/guides/api/api-keys). */
const refusal = z.object({ message: z.string() });
const disabled = /legacy api keys are disabled/i;

/** Returns the kind of a key from its text; undefined for another format, such as a self-hosted project's. */
export function kindOfKey(key: string): KeyKind | undefined {
  if (key.startsWith("sb_publishable_")) return "publishable key";
  if (key.startsWith("sb_secret_")) return "secret key";
  if (key.startsWith("sbp_")) return "access token";
  try {
    const claims = JSON.parse(Buffer.from(key.split(".")[1] ?? "", "base64url").toString());
    return roleClaim.parse(claims).role === "anon" ? "legacy anon key" : "legacy service_role key";
  } catch {
    return undefined;
  }
}

/** Checks that the project answers and accepts both keys. All other checks of the project require this. */
export async function checkKeys(env: Env): Promise<Finding[]> {
  const misplaced = (["SUPABASE_PUBLISHABLE_KEY", "SUPABASE_SECRET_KEY"] as const).flatMap((name) => {
    const kind = kindOfKey(env[name]);
    if (kinds[name].includes(kind)) return [];
    const isExposed = name === "SUPABASE_PUBLISHABLE_KEY" && kind !== "access token";
    const risk = isExposed ? ", which phones must never hold" : "";
    return [
      fail(
        "project",
        `${name} holds ${kind === "access token" ? "an" : "a"} ${kind}${risk}: set the project's ${kinds[name][0]} (${where}).`,
      ),
    ];
  });
  if (misplaced.length > 0) return misplaced;
  const publishable = await ask(`${env.SUPABASE_URL}/auth/v1/settings`, env.SUPABASE_PUBLISHABLE_KEY);
  if (publishable === null)
    return [fail("project", `${env.SUPABASE_URL} does not answer: is SUPABASE_URL right, and does it run?`)];
  if (!publishable.ok) return [await refusalOf(publishable, "SUPABASE_PUBLISHABLE_KEY")];
  const path = `${env.SUPABASE_URL}/auth/v1/admin/users?per_page=1`;
  if ((await askAsAdmin(path, env.SUPABASE_PUBLISHABLE_KEY))?.ok) {
    const says = "SUPABASE_PUBLISHABLE_KEY opens the admin API: it is a secret key, which phones must never hold.";
    return [fail("project", says)];
  }
  const secret = await askAsAdmin(path, env.SUPABASE_SECRET_KEY);
  if (!secret?.ok) return [await refusalOf(secret, "SUPABASE_SECRET_KEY")];
  return [ok("project", `${env.SUPABASE_URL} answers and takes both keys`)];
}

async function refusalOf(answer: Response | null, name: keyof typeof kinds): Promise<Finding> {
  const said = refusal.safeParse(await answer?.json().catch(() => undefined));
  const says = disabled.test(said.data?.message ?? "")
    ? `the project's legacy API keys are disabled, and ${name} is one: set its ${kinds[name][0]} (${where}).`
    : `the project refuses ${name}: copy it again (${where}).`;
  return fail("project", says);
}

const askAsAdmin = (url: string, key: string) => ask(url, key, { authorization: `Bearer ${key}` });

async function ask(url: string, apikey: string, headers: Record<string, string> = {}): Promise<Response | null> {
  return fetch(url, { headers: { apikey, ...headers }, signal: AbortSignal.timeout(askLimitMs) }).catch(() => null);
}
