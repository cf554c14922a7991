import type { Person } from "../people.ts";
import type { Answer } from "./phone.ts";

/** What a direct call must leave behind. */
export interface DirectCall {
  /** As in the list of Supabase Auth's routes. */
  route: string;
  title: string;
  /** Kinds of the events that it writes, each once. */
  events?: string[];
  /** Kinds of the events that the owner is mailed about, each once to each of so many addresses. */
  mails?: Record<string, number>;
  /** Whether it is refused, by the backend or by our triggers. */
  refused?: true;
  /** Additions marked as unconfirmed, by kind. */
  unconfirmed?: string[];
  /** A Supabase Auth does it, our local server has no such route: it answers 501. */
  notImplemented?: true;
  prepare: () => Promise<{ person: Pick<Person, "id"> | { email: string }; act: () => Promise<Answer> }>;
}
