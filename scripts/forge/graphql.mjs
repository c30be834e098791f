// Checks against GitHub's GraphQL schema. Reads a JSON array from standard input, prints one with as many answers:
//   {"query"}            → {"errors", "typed"}: what is wrong with it, and the query with every __typename asked for
//   {"query", "answer"}  → {"errors"}: where the answer's data does not fit the schema (enums, nulls, kinds of values)
import { readFileSync } from "node:fs";
import { buildSchema, executeSync, parse, print, validate, visit } from "graphql";

const path = new URL("node_modules/@octokit/graphql-schema/schema.graphql", import.meta.url);
const schema = buildSchema(readFileSync(path, "utf8"), { assumeValid: true });
const own = (name) => ({ kind: "Field", name: { kind: "Name", value: name } });
const typed = (document) =>
  visit(document, {
    SelectionSet: {
      leave: (node, _key, parent) =>
        parent.kind === "OperationDefinition"
          ? undefined
          : { ...node, selections: [...node.selections.filter((s) => s.name?.value !== "__typename"), own("__typename")] },
    },
  });

function check({ query, answer }) {
  let document;
  try {
    document = parse(query);
  } catch (error) {
    return { errors: [error.message] };
  }
  const errors = validate(schema, document).map((error) => error.message);
  if (errors.length > 0 || answer === undefined) return { errors, typed: print(typed(document)) };
  // The data is executed again as if it were the store: GraphQL itself complains about what does not fit.
  const variableValues = answer.variables ?? {};
  const result = executeSync({
    schema,
    document,
    rootValue: answer.data,
    variableValues,
    fieldResolver: (source, _args, _context, info) => source[info.path.key],
    typeResolver: (value) => value.__typename,
  });
  return { errors: (result.errors ?? []).map((error) => `${error.path?.join(".")}: ${error.message}`) };
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(check)));
