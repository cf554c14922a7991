import { Document, visit } from "yaml";
import { unprintable } from "../printable.ts";
import { apiVersion, defaults, type Platform } from "./schema.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Writes a platform as YAML. Equal platforms become equal text: lists are sorted, and defaults and empty lists are left
 * out.
 */
export function writePlatform(platform: Platform): string {
  const { signUp, plans, models, providerLimits, apps, openidClients, workspaces } = platform;
  const document = {
    apiVersion,
    signUp,
    plans: writeList(plans, "plans"),
    models: writeList(
      models?.map(({ routes, prices, grants, ...model }) => ({
        ...model,
        routes: filled(routes?.map((route) => omitDefaults(route, defaults.routes))),
        prices: writeList(prices, "prices"),
        grants: grants && omitEmpty(grants),
      })),
      "models",
    ),
    providerLimits: writeList(providerLimits, "providerLimits"),
    apps: writeList(
      apps?.map((app) => ({ ...app, workspaces: filled(app.workspaces) })),
      "apps",
    ),
    openidClients: writeList(openidClients, "openidClients"),
    workspaces: filled(
      workspaces
        ?.map(({ id, planId, policy, budgets }) => ({
          id,
          planId,
          policy: policy && omitDefaults(policy, defaults.policies),
          budgets: writeList(budgets, "budgets"),
        }))
        .toSorted(byText),
    ),
  };
  return printYaml(document);
}

/**
 * Writes YAML that a terminal shows as it is. Names come from the platform, so texts with invisible characters are in
 * double quotes, with escapes. Amounts, and what older parsers would take for other types, are in quotes as well.
 */
function printYaml(value: object): string {
  const document = new Document(value, { compat: "yaml-1.1", aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === "string" && node.value.search(unprintable) >= 0) node.type = "QUOTE_DOUBLE";
    },
  });
  return document.toString({ lineWidth: 0 }).replaceAll(unprintable, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    if (character === "\n") return character;
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

function writeList(items: readonly Fields[] | undefined, kind: keyof typeof defaults): Fields[] | undefined {
  return filled(items?.map((item) => omitDefaults(item, defaults[kind])).toSorted(byText));
}

/** Orders by the whole text, which begins with what identifies an item. */
function byText(a: Fields, b: Fields): number {
  const [textA, textB] = [JSON.stringify(a), JSON.stringify(b)];
  if (textA === textB) return 0;
  return textA < textB ? -1 : 1;
}

function omitDefaults(item: Fields, absent: Fields): Fields {
  return Object.fromEntries(
    Object.entries(item).filter(
      ([name, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(absent[name]),
    ),
  );
}

function omitEmpty(lists: Readonly<Record<string, readonly string[]>>): Fields | undefined {
  const kept = Object.entries(lists).filter(([, items]) => items.length > 0);
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}

function filled<Item>(items: readonly Item[] | undefined): Item[] | undefined {
  return items && items.length > 0 ? [...items] : undefined;
}
