#!/bin/sh
# Runs a command at most once for a key, on however many hosts cron starts it.
#
#   0 3 * * *  once.sh "report-$(date +\%F)" /usr/local/bin/report --mail
#
# SAMEKEY is the admin listener, SAMEKEY_TOKEN_FILE holds a token with the scope `claim` (a line of the server's token
# file will do), OPERATION is a configured operation, LIMIT how long the command may take.
#
# Exits as the command does. 0 also if it ran before; 75 if it is running elsewhere, or nobody knows how it ended.
set -eu

: "${SAMEKEY:=http://127.0.0.1:8788}" "${SAMEKEY_TOKEN_FILE:=samekey.token}" "${OPERATION:=cron.job}" "${LIMIT:=1h}"

key=$1
shift
case $key in
*[!A-Za-z0-9._-]*) echo "once.sh: a key has letters, digits and . _ - only: $key" >&2; exit 64 ;;
esac

# The token goes through standard input: arguments can be seen by every user of the machine.
token=$(sed 's/#.*//' "$SAMEKEY_TOKEN_FILE" | awk 'NF >= 2 { print $2; exit } NF == 1 { print $1; exit }')

# One call; each may be repeated. Leaves `status` and `answer`.
call() {
	answer=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
		curl --config - --silent --show-error --noproxy '*' --max-time 30 --retry 5 --retry-connrefused \
			--header 'Content-Type: application/json' --data "$2" --write-out '\n%{http_code}' "$SAMEKEY$1") || {
		echo "once.sh: samekey cannot be reached at $SAMEKEY" >&2
		exit 75
	}
	status=${answer##*
}
	answer=${answer%
*}
}

member() {
	printf '%s' "$answer" | sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"
}

# The command is what the key stands for: another one under the same key is refused.
payload=$(printf '%s\n' "$@" | base64 | tr -d '\n')
holder="$(uname -n)-$$-$(date +%s)"
# A lease as long as the command may take needs no heartbeat.
call /v1/claims "{\"actor\": \"cron\", \"operation\": \"$OPERATION\", \"key\": \"$key\", \"holder\": \"$holder\",
	\"payload_base64\": \"$payload\", \"content_type\": \"text/plain\", \"lease\": \"$LIMIT\", \"timeout\": \"$LIMIT\",
	\"wait\": \"0s\"}"

case $status in
201) claim=$(member claim_id) ;;
200)
	echo "once.sh: $key ran before" >&2
	exit 0
	;;
*)
	echo "once.sh: $key does not run: $(member code): $(member detail)" >&2
	exit 75
	;;
esac

code=0
"$@" || code=$?
case $code in
0) call "/v1/claims/$claim/complete" '{"result": {"exit": 0}}' ;;
# The command says that it did nothing (EX_TEMPFAIL): the next one may run.
75) call "/v1/claims/$claim/release" '{}' ;;
*) call "/v1/claims/$claim/uncertain" "{\"why\": \"the command ended with $code\"}" ;;
esac
[ "$status" = 200 ] || echo "once.sh: $key: the end was not taken: $(member code): $(member detail)" >&2
exit $code
