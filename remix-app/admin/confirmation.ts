import { confirmedChangeSchema } from "./console-change.ts";

/** The form of every change, without the text that confirms one. */
export const reasonedChangeSchema = confirmedChangeSchema.omit({ confirmation: true });

/**
 * What a person types to confirm a change that deletes something, or stops someone or something from working. Only such a
 * change has a red button. `what` describes `text`, such as "the account's email".
 */
export interface Confirmation {
  text: string;
  what: string;
}
