/**
 * What was refused, where it is said: a 400 is about what was typed, and stands at its field; anything else, such as a
 * limit or an outage, is none of the field's doing.
 */
export function errorsAt(
  field: string,
  { status, message }: { status: number; message: string },
): { fieldErrors: Record<string, string[]> } | { formErrors: string[] } {
  return status === 400 ? { fieldErrors: { [field]: [message] } } : { formErrors: [message] };
}
