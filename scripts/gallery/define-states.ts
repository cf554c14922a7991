import type { Page } from "playwright";
import type { Visitor } from "./visitors.ts";
import type { Account, World } from "./world.ts";

/** The product areas of pages. The gallery's chapters have this order. */
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

/** The context in which a state's functions run. */
export interface Scene {
  page: Page;
  world: World;
  /** The account whose session the browser has; null for `anonymous`. */
  person: Account | null;
}

/** A page in one of its states. */
export interface State {
  area: Area;
  name: string;
  /** The module of the route, as routes.ts names it; for an email, the file that contains its text. */
  route: string;
  visitor: Visitor;
  /** Prepares what the state needs and returns its address, relative to the platform. */
  at: (scene: Scene) => string | Promise<string>;
  /** Brings the page to the state if opening the address is not enough. */
  act?: (scene: Scene) => Promise<void>;
  /** The expected response status, for a page that is an error. Absent for all other pages. */
  status?: number;
}

/** The last element is either the function that brings the page to the state, or the status of a refusal. */
type Told = [name: string, route: string, visitor: Visitor, at: State["at"] | string, rest?: State["act"] | number];

/** Creates the states of an area, each from a tuple. */
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

/** Presses the button with exactly this name, and waits for the result. */
export async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).click();
}

/** Submits a form by its button, and waits for the response that refuses it. */
export async function refuse(page: Page, name: string): Promise<void> {
  await press(page, name);
  await page.getByRole("alert").first().waitFor();
}

/** Fills in the reason for a console change, and sends the form. */
export async function explain({ page }: Scene, button: string): Promise<void> {
  await page.getByLabel("Reason").fill("Called, and proved who they are");
  await press(page, button);
}

/** Waits until the page shows `heading` as its level-1 heading. */
export async function arrive(page: Page, heading: string | RegExp): Promise<void> {
  await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
}

/** Returns the account whose session the scene has. @throws if there is none */
export function whose({ person }: Scene): Account {
  if (!person) throw new Error("The scene has no signed-in account.");
  return person;
}
