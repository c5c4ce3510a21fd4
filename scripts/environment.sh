# Sourced by ./demo and ./test, from the top of the checkout: makes .venv and installs lithowave into it.
# POSIX sh. A new .venv is made with python3, or with the interpreter that PYTHON names.

say() {
    printf '%s\n' "lithowave: $*"
}

refuse() {
    printf '%s\n' "lithowave: $*" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

make_environment() {
    python=
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    found=$("${PYTHON:-python3}" --version 2>/dev/null | head -n 1)
    [ -n "$python" ] || refuse "Python 3.11 or newer is needed; ${PYTHON:-python3} is ${found:-missing}." \
        "Install it (Debian, Ubuntu: sudo apt install python3 python3-venv)," \
        "or name one: PYTHON=/path/to/python3.11 $0"
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        refuse "$python cannot make environments (no venv module)." \
            "Install it, then call $0 again: sudo apt install $package"
    say "making the environment .venv with $("$python" --version)"
    "$python" -m venv --clear .venv ||
        refuse "no environment could be made. If ensurepip is named above: sudo apt install $package"
}

# prepare_environment EXTRAS: an environment with lithowave[EXTRAS], installed editable. The stamp says for
# which pyproject.toml and which place that was done, so that a repeated call costs nothing.
prepare_environment() {
    extras=$1
    state="$(cksum <pyproject.toml) $(pwd -P)"
    stamp=".venv/lithowave-$(printf '%s' "$extras" | tr ',' '-').stamp"
    if [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
        return 0
    fi

    new_enough .venv/bin/python || make_environment
    say "installing lithowave[$extras] and what it needs, once: a minute or two (messages: .venv/install.log)"
    rm -f .venv/installed
    {
        .venv/bin/python -m pip install --disable-pip-version-check --editable ".[$extras]" 2>&1 &&
            : >.venv/installed
    } | tee .venv/install.log | sed -u -n \
        -e 's/^Collecting \([A-Za-z0-9._-]*\).*/    found \1/p' \
        -e 's/^Installing collected.*/    installing/p'
    if [ ! -f .venv/installed ]; then
        tail -n 20 .venv/install.log >&2
        refuse "the installation failed; its messages are above and in .venv/install.log"
    fi
    printf '%s\n' "$state" >"$stamp"
    say "installed"
}

# A browser for the tests of reports: found, or installed where the user is root and apt-get exists. Without one these
# tests are skipped. A failed attempt is not repeated.
prepare_browser() {
    for program in chromium-headless-shell chromium chromium-browser google-chrome; do
        if command -v "$program" >/dev/null 2>&1; then return 0; fi
    done
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && [ ! -e .venv/browser.log ] || return 0
    say "installing chromium-headless-shell for the tests of reports, once: up to a minute (messages: .venv/browser.log)"
    (
        export DEBIAN_FRONTEND=noninteractive
        package=chromium-headless-shell
        apt-cache show "$package" >/dev/null 2>&1 || timeout 60 apt-get -qq update || true
        timeout 180 apt-get install --yes --no-install-recommends "$package"
    ) >.venv/browser.log 2>&1 || say "it could not be installed; these tests are skipped"
}
