import type OpenAI from "openai";

/** What OpenAI publishes of its answers, by what we call them. openai-schemas.ts makes JSON Schemas of these. */
export type Published = {
  chat: OpenAI.ChatCompletion;
  chunk: OpenAI.ChatCompletionChunk;
  /** Without what the client adds by itself. */
  response: Omit<OpenAI.Responses.Response, "output_text">;
  event: OpenAI.Responses.ResponseStreamEvent;
  embeddings: OpenAI.CreateEmbeddingResponse;
  models: { object: "list"; data: OpenAI.Model[] };
  model: OpenAI.Model;
  error: { error: OpenAI.ErrorObject };
};
