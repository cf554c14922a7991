import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { ApiDocument, DescribedOperation, Schema } from "../../remix-app/api-reference/documents.ts";
import { urlRoutes } from "../test/routes.ts";

/** A target of requests: one route and method, or one operation of an API document. */
export interface Target {
  name: string;
  surface: "page" | "api" | "gateway";
  at: "platform" | "satellite" | "gateway";
  method: string;
  /** The path with its parameters in braces. */
  path: string;
  operation?: DescribedOperation;
  resolve: (ref: string) => Schema;
}

const nothing = (): Schema => ({});

/** Returns every route with GET and POST, and every operation of the API documents. */
export function everyTarget(): Target[] {
  const ofRoutes = urlRoutes.flatMap(({ index, path: pattern = "" }) => {
    const written = `/${index ? "" : pattern === "*" ? "no/such/page" : pattern.replaceAll(/:(\w+)/g, "{$1}")}`;
    const surface = written.startsWith("/api/") ? ("api" as const) : ("page" as const);
    return ["GET", "POST"].map((method) => ({
      name: `${method} ${written}`,
      surface,
      at: "platform" as const,
      method,
      path: written,
      resolve: nothing,
    }));
  });
  const described = (["platform", "gateway"] as const).flatMap((area) => operationsOf(area));
  const known = new Set(described.map(({ name }) => name));
  // One module answers all paths of the admin API, and refuses undocumented methods before it reads anything.
  const isRefused = ({ path }: Target) => path.startsWith("/api/v1/admin/");
  return [...described, ...ofRoutes.filter((target) => !known.has(target.name) && !isRefused(target))];
}

function operationsOf(area: "platform" | "gateway"): Target[] {
  const { paths, components } = JSON.parse(readFileSync(`docs/openapi/${area}.json`, "utf8")) as ApiDocument;
  const resolve = (ref: string) => components.schemas[ref.split("/").at(-1) ?? ""] ?? {};
  return Object.entries(paths).flatMap(([written, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${written}`,
      surface: area === "gateway" ? ("gateway" as const) : ("api" as const),
      at:
        area === "gateway"
          ? ("gateway" as const)
          : operation.operationId === "verifyAppToken"
            ? ("satellite" as const)
            : ("platform" as const),
      method: method.toUpperCase(),
      path: written,
      operation,
      resolve,
    })),
  );
}

/** Returns the names and values of form fields in the pages' source code. */
export function formWords(): { names: string[]; values: string[] } {
  const sources = readdirSync("remix-app", { recursive: true, encoding: "utf8" })
    .filter((file) => /\.tsx?$/.test(file) && !file.includes(".test."))
    .map((file) => readFileSync(path.join("remix-app", file), "utf8"));
  const all = (pattern: RegExp) => [
    ...new Set(sources.flatMap((text) => [...text.matchAll(pattern)].map(([, word = ""]) => word))),
  ];
  return { names: all(/\bname="([A-Za-z]\w{0,40})"/g), values: all(/\bvalue="([^"{}]{1,60})"/g) };
}
