import OpenAI from "openai";
import { readStack } from "../../../scripts/test/stack.ts";
import { assembleGateway } from "../../functions/_gateway/assemble-gateway.ts";
import { readEnvironment } from "../../functions/_gateway/environment.ts";
import type { TimeLimits } from "../../functions/_gateway/providers/limits.ts";
import { createHandler as createChat } from "../../functions/chat/handler.ts";
import { createHandler as createEmbeddings } from "../../functions/embeddings/handler.ts";
import { createHandler as createEnvelopes } from "../../functions/envelopes/handler.ts";
import { createHandler as createMessages } from "../../functions/messages/handler.ts";
import { createHandler as createModels } from "../../functions/models/handler.ts";
import { createHandler as createProviders } from "../../functions/providers/handler.ts";
import { createHandler as createResponses } from "../../functions/responses/handler.ts";
import { type DatabaseLine, openLine } from "./database-line.ts";

/**
 * A gateway in the test's process that uses the stack's database and provider. Its database connections can be observed
 * and cut.
 */
export type InProcessGateway = {
  line: DatabaseLine;
  /** The standard OpenAI client. Its chat, response and model calls reach this gateway without a network. */
  clientOf: (apiKey: string, headers?: Record<string, string>) => OpenAI;
  /** Reaches this gateway without a network, below `http://gateway.test/v1`. */
  fetch: typeof fetch;
  /** Resolves once no background work is left. */
  settled: () => Promise<void>;
  close: () => Promise<void>;
};

/**
 * Assembles a gateway from the same parts as in a function's isolate, in this process.
 * @param settings environment variables in addition to the stack's
 * @param write receives the gateway's log
 * @param limits replace the default limits
 */
export async function openGateway(
  settings: Record<string, string> = {},
  write: (line: string) => void = () => {},
  limits: Partial<TimeLimits> = {},
): Promise<InProcessGateway> {
  const { provider, providerKey, supabase } = readStack();
  const line = await openLine();
  const background = new Set<Promise<unknown>>();
  const assembled = assembleGateway(
    readEnvironment({
      GATEWAY_DB_URL: line.url,
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      AI_PROVIDER_DEMO_KIND: "openai",
      AI_PROVIDER_DEMO_BASE_URL: `${provider}/v1`,
      AI_PROVIDER_DEMO_API_KEY: providerKey,
      ...settings,
    }),
    {
      waitUntil(work) {
        const task = work.catch(() => {}).finally(() => background.delete(task));
        background.add(task);
      },
      // Errors that these tests cause in the database are not defects to report.
      report: () => {},
      write,
    },
  );
  const gateway = { ...assembled, limits: { ...assembled.limits, ...limits } };
  const functions = {
    chat: createChat(gateway),
    embeddings: createEmbeddings(gateway),
    envelopes: createEnvelopes(gateway),
    messages: createMessages(gateway),
    models: createModels(gateway),
    providers: createProviders(gateway),
    responses: createResponses(gateway),
  };
  const serve: typeof fetch = (input, init) => {
    const request = new Request(String(input).replace("/v1", ""), init);
    const [, name] = new URL(request.url).pathname.split("/");
    return functions[name as keyof typeof functions](request);
  };
  const settled = async () => {
    while (background.size > 0) await Promise.all(background);
  };
  return {
    line,
    clientOf: (apiKey, defaultHeaders = {}) =>
      new OpenAI({ baseURL: "http://gateway.test/v1", apiKey, defaultHeaders, maxRetries: 0, fetch: serve }),
    fetch: serve,
    settled,
    async close() {
      line.mend();
      await assembled.flush();
      await settled();
      await gateway.database.close();
      line.close();
    },
  };
}
