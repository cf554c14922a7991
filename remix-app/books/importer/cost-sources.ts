import type { Env } from "../../config/env.server.ts";
import { anthropic } from "./anthropic.ts";
import type { CostProvider } from "./cost-provider.ts";
import { openAi } from "./openai.ts";
import { openRouter } from "./openrouter.ts";
import type { CostSource } from "./read-report.ts";

/** The providers whose costs can be imported automatically. */
export const costProviders = [openAi, anthropic, openRouter] as const;

/** Returns the providers whose key this server has. */
export function costSources(env: Env): CostSource[] {
  const access: { provider: CostProvider; key: string | undefined; baseUrl: string }[] = [
    { provider: openAi, key: env.OPENAI_ADMIN_KEY, baseUrl: env.OPENAI_BASE_URL },
    { provider: anthropic, key: env.ANTHROPIC_ADMIN_KEY, baseUrl: env.ANTHROPIC_BASE_URL },
    { provider: openRouter, key: env.OPENROUTER_ADMIN_KEY, baseUrl: env.OPENROUTER_BASE_URL },
  ];
  return access.flatMap(({ provider, key, baseUrl }) => (key === undefined ? [] : [{ provider, key, baseUrl }]));
}
