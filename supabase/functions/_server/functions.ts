import type { Gateway } from "../_gateway/calls/gateway.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { createHandler as createAudio } from "../audio/handler.ts";
import { createHandler as createChat } from "../chat/handler.ts";
import { createHandler as createEmbeddings } from "../embeddings/handler.ts";
import { createHandler as createEnvelopes } from "../envelopes/handler.ts";
import { createHandler as createGenerate } from "../generate/handler.ts";
import { createHandler as createKey } from "../key/handler.ts";
import { createHandler as createMessages } from "../messages/handler.ts";
import { createHandler as createModels } from "../models/handler.ts";
import { createHandler as createProviderCosts } from "../provider-costs/handler.ts";
import { createHandler as createProviderInvoices } from "../provider-invoices/handler.ts";
import { createHandler as createProviders } from "../providers/handler.ts";
import { createHandler as createResponses } from "../responses/handler.ts";
import { createHandler as createUsage } from "../usage/handler.ts";

/** Handles the requests below the path of all functions. */
export type FunctionsHandler = (request: Request) => Promise<Response>;

/** The functions by their names, which are the first segment of their paths. All other paths answer 404. */
export const functions = {
  audio: createAudio,
  chat: createChat,
  embeddings: createEmbeddings,
  envelopes: createEnvelopes,
  generate: createGenerate,
  key: createKey,
  messages: createMessages,
  models: createModels,
  "provider-costs": createProviderCosts,
  "provider-invoices": createProviderInvoices,
  providers: createProviders,
  responses: createResponses,
  usage: createUsage,
};

/**
 * Creates the handler of all functions, below the path at which Supabase serves them and below `/`, where Supabase's own
 * proxy forwards them (`strip_path` of `functions-v1` in its docker/volumes/api/kong.yml).
 * @param gateways the gateway of model calls, and the one of `GET /v1/key`, whose connections are limited so that it
 * never keeps model calls waiting
 */
export function createFunctionsHandler({
  gateway,
  keyGateway,
}: {
  gateway: Gateway;
  keyGateway: Gateway;
}): FunctionsHandler {
  const handlers = new Map<string, FunctionsHandler>(
    Object.entries(functions).map(([name, create]) => [name, create(name === "key" ? keyGateway : gateway)]),
  );
  const notFound = createRouter([], gateway);
  return async (request) => {
    const [, name = ""] = /^(?:\/functions\/v1)?\/([^/]+)/.exec(new URL(request.url).pathname) ?? [];
    return (handlers.get(name) ?? notFound)(request);
  };
}
