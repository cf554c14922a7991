import type OpenAI from "openai";

/** OpenAI's published response types, under our names. openai-schemas.ts creates JSON Schemas from them. */
export type Published = {
  chat: OpenAI.ChatCompletion;
  chunk: OpenAI.ChatCompletionChunk;
  /** Without `output_text`, which only the client adds. */
  response: Omit<OpenAI.Responses.Response, "output_text">;
  event: OpenAI.Responses.ResponseStreamEvent;
  embeddings: OpenAI.CreateEmbeddingResponse;
  models: { object: "list"; data: OpenAI.Model[] };
  model: OpenAI.Model;
  error: { error: OpenAI.ErrorObject };
};
