-- Unlogged, so that a count costs no write to the log. A crash of the database empties the table.
CREATE UNLOGGED TABLE "recent_calls" (
	"key" text PRIMARY KEY NOT NULL,
	"made" timestamp with time zone[] NOT NULL
);
