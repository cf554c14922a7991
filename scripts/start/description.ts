import { renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { styleText } from "node:util";

/** The description of a running stack for people and tests. */
export type StackDescription = {
  base: string;
  /** Our own apps, whose users sign in through the platform. */
  satellites: { name: string; url: string }[];
  ai: string;
  supabase: { url: string; publishableKey: string; secretKey: string; dbUrl: string };
  mail: { smtp: string; web: string };
  provider: string;
  /** The key that the local model provider requires. */
  providerKey: string;
  /** The OpenID provider for demo accounts. */
  oidc: string;
  /** totpSecret is the authenticator app's key in base32. */
  users: { role: "user" | "admin" | "finance"; email: string; password: string; totpSecret?: string }[];
  workspaceId: string;
  aiKey: string;
  /** A key that is bound to the external app below. */
  appKey: string;
  /** The credentials with which the external app exchanges its users' cross-app tokens for `ttr_app_` tokens. */
  externalApp: { name: string; secret: string };
  gatewayDbUrl: string;
  services: { name: string; pid: number; port: number }[];
};

/** Returns the functions' settings for the local model provider. */
export function demoProviders({ provider, providerKey }: Pick<StackDescription, "provider" | "providerKey">) {
  return {
    AI_PROVIDER_DEMO_KIND: "openai",
    AI_PROVIDER_DEMO_BASE_URL: `${provider}/v1`,
    AI_PROVIDER_DEMO_API_KEY: providerKey,
    AI_PROVIDER_DEMO_MESSAGES_KIND: "anthropic",
    AI_PROVIDER_DEMO_MESSAGES_BASE_URL: `${provider}/v1`,
    AI_PROVIDER_DEMO_MESSAGES_API_KEY: providerKey,
    AI_PROVIDER_DEMO_SPEECH_KIND: "gemini",
    AI_PROVIDER_DEMO_SPEECH_BASE_URL: `${provider}/v1beta`,
    AI_PROVIDER_DEMO_SPEECH_API_KEY: providerKey,
  };
}

const fileIn = (dataDir: string) => path.join(dataDir, "stack.json");

/** Writes `stack.json` atomically, with mode 0600. */
export function writeDescription(dataDir: string, description: StackDescription): void {
  const draft = `${fileIn(dataDir)}.new`;
  writeFileSync(draft, `${JSON.stringify(description, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, fileIn(dataDir));
}

/** Removes `stack.json`, since nothing is running. */
export function removeDescription(dataDir: string): void {
  rmSync(fileIn(dataDir), { force: true });
}

/** Renders the table that is printed when all services are ready. */
export function renderTable(description: StackDescription, stream: NodeJS.WriteStream): string {
  const label = (text: string) => (stream.isTTY ? styleText("bold", text.padEnd(17), { stream }) : text.padEnd(17));
  const { base, satellites, ai, supabase, mail, users, aiKey, appKey, externalApp } = description;
  const rows: [string, string][] = [
    ["Web", base],
    ...satellites.map(({ name, url }): [string, string] => [`Satellite ${name}`, url]),
    ["Mailbox", mail.web],
    ["Supabase", supabase.url],
    ["Publishable key", supabase.publishableKey],
    ["Postgres", supabase.dbUrl],
    ["OpenAI base URL", `${ai}/v1`],
    ["Anthropic base", ai],
    ["AI key", aiKey],
    ["AI key of app", appKey],
    ["App and secret", externalApp.name && `${externalApp.name}  ${externalApp.secret}`],
    ...users.map(({ role, email, password, totpSecret }): [string, string] => [
      role === "user" ? "Sign in" : `Sign in (${role})`,
      `${email}  ${password}${totpSecret ? `  authenticator key ${totpSecret}` : ""}`,
    ]),
  ];
  const lines = rows.filter(([, value]) => value !== "").map(([name, value]) => `  ${label(name)}  ${value}`);
  const call = aiKey ? ["", "Ask the demo model:", "", ...curlLines(ai, aiKey)] : [];
  return ["", "Gatehouse is ready. Ctrl-C stops it.", "", ...lines, ...call, "", ""].join("\n");
}

function curlLines(ai: string, aiKey: string): string[] {
  const body = { model: "demo-chat", messages: [{ role: "user", content: "Hello" }] };
  return [
    `curl ${ai}/v1/chat/completions -H 'Authorization: Bearer ${aiKey}' \\`,
    `  -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`,
  ].map((line) => `  ${line}`);
}
