import gatewayText from "../../docs/openapi/gateway.json?raw";
import platformText from "../../docs/openapi/platform.json?raw";
import type { Env } from "../config/env.server.ts";
import { type JsonDocument, jsonDocument } from "../http/json-document.ts";

/** The parts of JSON Schema that our documents use. */
export interface Schema {
  $ref?: string;
  type?: string | readonly string[];
  format?: string;
  description?: string;
  const?: unknown;
  enum?: readonly unknown[];
  default?: unknown;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  prefixItems?: readonly Schema[];
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  allOf?: readonly Schema[];
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
}

export interface DescribedResponse {
  $ref?: string;
  description: string;
  content?: Record<string, { schema?: Schema; example?: unknown }>;
}

export interface DescribedOperation {
  operationId: string;
  tags: readonly [string];
  summary: string;
  description?: string;
  security: readonly Record<string, readonly string[]>[];
  parameters: readonly Parameter[];
  requestBody?: { content: { "application/json": { schema: Schema; example: unknown } } };
  responses: Record<string, DescribedResponse>;
}

/** An OpenAPI document as `npm run generate` writes it. */
export interface ApiDocument {
  info: { title: string; version: string; description: string };
  servers: readonly object[];
  tags: readonly { name: string }[];
  paths: Record<string, Record<string, DescribedOperation>>;
  components: {
    schemas: Record<string, Schema>;
    responses: Record<string, DescribedResponse>;
    securitySchemes: Record<string, { type: string; scheme?: string; in?: string; description: string }>;
  };
}

export const areas = ["platform", "gateway"] as const;
export type Area = (typeof areas)[number];

const documents: Record<Area, ApiDocument> = {
  platform: JSON.parse(platformText) as ApiDocument,
  gateway: JSON.parse(gatewayText) as ApiDocument,
};

/** Returns the origin that serves an area. */
export function originOf(area: Area, { origin, env }: { origin: string; env: Pick<Env, "AI_URL"> }): string {
  return area === "platform" ? origin : env.AI_URL;
}

export function documentOf(area: Area): ApiDocument {
  return documents[area];
}

const servedDocuments = new Map<string, JsonDocument>();

/** Returns an area's document with this server's URL for it, as it is served. */
export function servedDocument(area: Area, context: { origin: string; env: Pick<Env, "AI_URL"> }): JsonDocument {
  const url = originOf(area, context);
  const document = servedDocuments.get(`${area} ${url}`) ?? jsonDocument({ ...documents[area], servers: [{ url }] });
  servedDocuments.set(`${area} ${url}`, document);
  return document;
}

export function isArea(text: string | undefined): text is Area {
  return areas.some((area) => area === text);
}

/** Returns a tag's slug for URLs. */
export function slugOf(tag: string): string {
  return tag.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
}
