import type { Page } from "playwright";
import type { Visitor } from "./visitors.ts";
import type { Account, World } from "./world.ts";

/** Where in the product a page belongs; the gallery's chapters, in this order. */
export const areas = [
  "Sign in",
  "Second step",
  "Account",
  "Workspace",
  "AI studio",
  "Playground",
  "Console",
  "Satellite",
  "API reference",
  "Emails",
  "Refusals",
] as const;

export type Area = (typeof areas)[number];

/** What a state is led to with. */
export interface Scene {
  page: Page;
  world: World;
  /** The account whose session the browser has; nobody's has none. */
  person: Account | null;
}

/** A page in one of its states. */
export interface State {
  area: Area;
  name: string;
  /** The module of the route, as routes.ts names it; of an email, the file that has its words. */
  route: string;
  visitor: Visitor;
  /** The address, relative to the platform; made ready for first, where it takes something. */
  at: (scene: Scene) => string | Promise<string>;
  /** Leads to the state, where the address alone does not. */
  act?: (scene: Scene) => Promise<void>;
  /** By which the address is answered, where it is a refusal. */
  status?: number;
}

/** Last comes what leads to the state, or the status of a refusal. */
type Told = [name: string, route: string, visitor: Visitor, at: State["at"] | string, rest?: State["act"] | number];

/** The states of an area, each in one line. */
export function statesOf(area: Area, told: readonly Told[]): State[] {
  return told.map(([name, route, visitor, at, rest]) => ({
    area,
    name,
    route: `routes/${route}.tsx`,
    visitor,
    at: typeof at === "string" ? () => at : at,
    ...(typeof rest === "number" ? { status: rest } : rest && { act: rest }),
  }));
}

/** Presses the button of that very name, and waits for what comes of it. */
export async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).click();
}

/** Sends a form by its button, and waits for the answer that refuses it. */
export async function refuse(page: Page, name: string): Promise<void> {
  await press(page, name);
  await page.getByRole("alert").first().waitFor();
}

/** Gives a reason for a change in the console, types what it is about, and sends the form. */
export async function confirm({ page }: Scene, { text, button }: { text: string; button: string }): Promise<void> {
  await page.getByLabel("Reason").fill("Called, and proved who they are");
  await page.getByLabel(/to confirm$/).fill(text);
  await press(page, button);
}

/** Waits for the page's first heading to be this one. */
export async function arrive(page: Page, heading: string | RegExp): Promise<void> {
  await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
}

/** The person whose session the scene has. @throws where it has none */
export function whose({ person }: Scene): Account {
  if (!person) throw new Error("Nobody is signed in here.");
  return person;
}
