import type { Person } from "../../../scripts/test/people.ts";
import type { Answer } from "./phone.ts";

/** A direct call, and the records and emails that it must cause. */
export interface DirectCall {
  /** The route's name in the list of Supabase Auth's routes. */
  route: string;
  title: string;
  /** Kinds of the events that the call must record. Each event must be recorded only once. */
  events?: string[];
  /** The number of addresses that get an email, by kind of event. Each address gets one email. */
  mails?: Record<string, number>;
  /** Whether the call is refused, by the backend or by our triggers. */
  refused?: true;
  /** Kinds of the additions (sign-in methods and factors) that the call leaves unconfirmed. */
  unconfirmed?: string[];
  /** Supabase Auth supports the call, but our local server has no such route and answers 501. */
  notImplemented?: true;
  prepare: () => Promise<{ person: Pick<Person, "id"> | { email: string }; act: () => Promise<Answer> }>;
}
